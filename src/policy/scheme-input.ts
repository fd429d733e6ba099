/** Everything one scheme is compiled from. */
import type { LoadedCard, Sections } from './compare-card.ts'
import type { LoadContext } from './files.ts'
import type { Report } from './report.ts'

export interface SchemeInput {
  readonly name: string
  readonly settings: unknown
  readonly card: LoadedCard
  readonly sections: Sections
  readonly context: LoadContext
  /** Reports on the settings; pointers are relative to them. */
  readonly report: Report
}
