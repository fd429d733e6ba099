/** Names of keys: `<prefix>:v1:{<group>}:<kind>:<digest>`. What is in braces decides the node of a Cluster. */
import { createHash } from 'node:crypto'

/** Layout of everything under the prefix. Another layout has another number, so that two versions never read each other's. */
export const SCHEMA = 'v1'

export interface Keys {
  /** Keys of one group are on one node. */
  group(name: string): string
  /** Of `parts`, whatever they hold and however long they are: two that differ in anything have different keys. */
  key(group: string, kind: string, ...parts: readonly string[]): string
}

export function createKeys(prefix: string): Keys {
  if (typeof prefix !== 'string' || !/^[A-Za-z0-9._:-]{1,64}$/.test(prefix))
    throw new TypeError('"prefix" must be 1 to 64 letters, digits and . _ : -')
  const group = (name: string) => `${prefix}:${SCHEMA}:{${prefix}.${name}}`
  return {
    group,
    key: (name, kind, ...parts) => [group(name), kind, ...(parts.length === 0 ? [] : [digestOf(parts)])].join(':'),
  }
}

/** Of a list of texts, each with its length, so that no two lists share one. */
export function digestOf(parts: readonly string[]): string {
  const hash = createHash('sha256')
  for (const part of parts) hash.update(`${Buffer.byteLength(part)}:`).update(part)
  return hash.digest('base64url')
}
