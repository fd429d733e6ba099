import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { parse } from 'yaml'
import { lintTrust } from '../../src/card/trust.ts'
import { policyJsonSchema } from '../../src/policy/json-schema.ts'
import { policySchema } from '../../src/policy/schema.ts'
import { filesUnder, root } from './source-tree.ts'

const page = readFileSync(join(root, 'docs/policy.md'), 'utf8')
const documents = ['README.md', 'keys-example/README.md', ...filesUnder('docs', '.md')]
const yaml = documents.flatMap((path) =>
  [...readFileSync(join(root, path), 'utf8').matchAll(/^```yaml\n([\s\S]*?)^```/gm)].map(([, text]) => ({
    path,
    text: text as string,
  })),
)

describe('policy documents', () => {
  it('docs/policy.schema.json is what the schema generates', () => {
    expect(JSON.parse(readFileSync(join(root, 'docs/policy.schema.json'), 'utf8'))).toEqual(
      JSON.parse(JSON.stringify(policyJsonSchema())),
    )
  })

  it('docs/policy.md names every key', () => {
    const keys = new Set<string>()
    const walk = (node: unknown): void => {
      if (typeof node !== 'object' || node === null) return
      const { properties } = node as { properties?: Record<string, unknown> }
      for (const name of Object.keys(properties ?? {})) keys.add(name)
      for (const value of Object.values(node)) walk(value)
    }
    const { webhooks, delegation, stores, ...supported } = policySchema.shape
    walk(policyJsonSchema())
    expect(
      Object.keys({ webhooks, delegation, stores, ...supported }).filter((name) => !page.includes(`\`${name}\``)),
    ).toEqual([])
    expect(keys.size).toBeGreaterThan(30)
  })

  it('every policy and trust file in the documents is valid', async () => {
    let seen = 0
    for (const { path, text } of yaml) {
      const value = parse(text) as Record<string, unknown> | unknown[]
      if (Array.isArray(value)) continue
      if ('signers' in value) {
        seen += 1
        expect(await lintTrust({ trust: value }), path).toEqual([])
      } else if ('audience' in value) {
        seen += 1
        expect(policySchema.safeParse(value).error?.issues, path).toBeUndefined()
      }
    }
    expect(seen).toBeGreaterThan(2)
  })

  it('every link between documents leads somewhere', () => {
    const broken = documents.flatMap((path) =>
      [...readFileSync(join(root, path), 'utf8').matchAll(/\]\((\.{1,2}\/[^)#]+)/g)]
        .map(([, target]) => target as string)
        .filter((target) => !existsSync(join(root, dirname(path), target)))
        .map((target) => `${path} -> ${target}`),
    )
    expect(broken).toEqual([])
  })
})
