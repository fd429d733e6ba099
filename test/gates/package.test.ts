import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { root } from './source-tree.ts'

const bin = (name: string) => join(root, 'node_modules/.bin', name)
const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
  dependencies: Record<string, string>
}

describe('the package as it is published', () => {
  let folder = ''
  let tarball = ''

  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'a2a-trust-pack-'))
    // What was built and tested is what is packed: no script may build again.
    const output = execFileSync('npm', ['pack', '--json', '--ignore-scripts', '--pack-destination', folder], {
      cwd: root,
      encoding: 'utf8',
    })
    tarball = join(folder, (JSON.parse(output) as [{ filename: string }])[0].filename)
  })
  afterAll(() => rmSync(folder, { recursive: true }))

  it('publint is content', () => {
    expect(() =>
      execFileSync(bin('publint'), [tarball, '--strict'], { cwd: root, encoding: 'utf8', stdio: 'pipe' }),
    ).not.toThrow()
  })

  it('attw resolves the types of every entry', () => {
    // ESM only, and entry points by `exports`: the two old resolutions are not supported.
    const args = [tarball, '--profile', 'esm-only', '--format', 'ascii', '--no-emoji', '--no-color']
    expect(() => execFileSync(bin('attw'), args, { cwd: root, encoding: 'utf8', stdio: 'pipe' })).not.toThrow()
  })

  it('works in an empty folder: a guard decides, the command runs', () => {
    const app = join(folder, 'app')
    const installed = join(app, 'node_modules/a2a-trust')
    mkdirSync(installed, { recursive: true })
    execFileSync('tar', ['-xzf', tarball, '-C', installed, '--strip-components=1'])
    for (const name of Object.keys(manifest.dependencies)) {
      mkdirSync(dirname(join(app, 'node_modules', name)), { recursive: true })
      symlinkSync(join(root, 'node_modules', name), join(app, 'node_modules', name), 'dir')
    }
    const card = {
      name: 'Packed',
      description: 'd',
      version: '1',
      supportedInterfaces: [{ url: 'https://agent.example/', protocolBinding: 'JSONRPC', protocolVersion: '1.0' }],
      capabilities: {},
      defaultInputModes: ['text/plain'],
      defaultOutputModes: ['text/plain'],
      skills: [],
      securitySchemes: { key: { apiKeySecurityScheme: { location: 'header', name: 'X-API-Key' } } },
      securityRequirements: [{ schemes: { key: { list: [] } } }],
    }
    // SHA-256 of `correct-horse-battery-staple`.
    const sha256 = '87cbebfeebc05f7c54ac9336c4b4bbec831227a641951a4bde7edd56020f8590'
    writeFileSync(join(app, 'keys.yaml'), `- id: one\n  sha256: ${sha256}\n  owner: alice\n`)
    writeFileSync(join(app, 'card.json'), JSON.stringify(card))
    writeFileSync(
      join(app, 'policy.yaml'),
      'version: 1\ncard: ./card.json\naudience: https://agent.example\nschemes:\n  key: { keys: "file:./keys.yaml" }\n',
    )
    writeFileSync(
      join(app, 'main.mjs'),
      `import { createGuard } from 'a2a-trust'
       const guard = await createGuard({ policy: './policy.yaml' })
       const ask = async (key) => {
         const request = { method: 'GET', target: '/tasks', rawHeaders: ['a2a-version', '1.0', ...(key ? ['x-api-key', key] : [])] }
         const decision = await guard.check(request)
         return decision.allowed ? decision.principal.subject : decision.denial.status
       }
       console.log(JSON.stringify([await ask(), await ask('wrong'), await ask('correct-horse-battery-staple')]))
       await guard.close()`,
    )
    expect(JSON.parse(execFileSync(process.execPath, ['main.mjs'], { cwd: app, encoding: 'utf8' }))).toEqual([
      401,
      401,
      'alice',
    ])
    const lint = execFileSync(
      process.execPath,
      [join(installed, 'dist/cli/main.js'), 'policy', 'lint', '--policy', 'policy.yaml'],
      {
        cwd: app,
        encoding: 'utf8',
        stdio: 'pipe',
      },
    )
    expect(lint).not.toContain('error:')
    expect(readdirSync(installed).toSorted()).toEqual([
      'LICENSE',
      'README.md',
      'dist',
      'docs',
      'keys-example',
      'package.json',
    ])
  })
})
