/** The lock file of pins: what was approved of each card, by its URL. */
import { randomUUID } from 'node:crypto'
import { readFile, rename, writeFile } from 'node:fs/promises'
import { z } from 'zod'
import { TrustError } from '../errors.ts'
import { parseStrictJson } from '../internal/json.ts'
import type { Pin } from './pins.ts'

const pinSchema = z.strictObject({
  signers: z.array(z.string()),
  version: z.string(),
  hosts: z.array(z.string()),
  schemes: z.record(z.string(), z.string()),
  requirements: z.array(z.string()),
  capabilities: z.record(z.string(), z.string()),
  skills: z.record(z.string(), z.array(z.string())),
})
const fileSchema = z.strictObject({ version: z.literal(1), cards: z.record(z.string(), pinSchema) })

export type PinFile = Readonly<Record<string, Pin>>

/** Pins by URL; none for a file that does not exist. Throws `ERR_TRUST_PINS` for a file that is something else. */
export async function readPins(path: string): Promise<PinFile> {
  let text: string
  try {
    text = await readFile(path, 'utf8')
  } catch (fault) {
    if ((fault as NodeJS.ErrnoException).code === 'ENOENT') return {}
    throw fault
  }
  try {
    return fileSchema.parse(parseStrictJson(text)).cards
  } catch (cause) {
    throw new TrustError('ERR_TRUST_PINS', { details: { file: path }, cause })
  }
}

/** Replaces the file as a whole, so that a reader never sees half of it. Keys in order, for a readable diff. */
export async function writePins(path: string, pins: PinFile): Promise<void> {
  const cards = Object.fromEntries(Object.entries(pins).sort(([a], [b]) => (a < b ? -1 : 1)))
  const temporary = `${path}.${randomUUID()}`
  await writeFile(temporary, `${JSON.stringify({ version: 1, cards }, null, 2)}\n`, { flag: 'wx' })
  await rename(temporary, path)
}
