/** The JSON Schema of the policy file, for editors. `docs/policy.schema.json` is this, and a test keeps it so. */
import { z } from 'zod'
import { policySchema } from './schema.ts'

/** JSON Schema 2020-12. Describes shapes; `lintPolicy` also checks what no schema can say. */
export function policyJsonSchema(): Record<string, unknown> {
  return z.toJSONSchema(policySchema, { target: 'draft-2020-12', io: 'input' })
}
