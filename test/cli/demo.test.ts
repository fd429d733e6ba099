/** The main job, as a user starts it. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'

const command = join(import.meta.dirname, '../../dist/cli/main.js')

describe('demo', () => {
  it('every outcome is as expected, and it ends with 0', async () => {
    const child = spawn(process.execPath, [command, 'demo'], { stdio: ['ignore', 'pipe', 'ignore'] })
    let text = ''
    child.stdout.on('data', (chunk: Buffer) => {
      text += chunk.toString()
    })
    const [status] = (await once(child, 'exit')) as [number]
    expect(text).toMatch(/\n19 of 19 outcomes as expected\n$/)
    expect(text).not.toContain('WRONG')
    expect(status).toBe(0)
  })

  it('--serve keeps it up, prints curl lines that do what they say, and ends on SIGINT', async () => {
    const child = spawn(process.execPath, [command, 'demo', '--serve'], { stdio: ['ignore', 'pipe', 'ignore'] })
    let text = ''
    await new Promise<void>((resolve, reject) => {
      child.on('exit', () => reject(new Error(`ended early: ${text}`)))
      child.stdout.on('data', (chunk: Buffer) => {
        text += chunk.toString()
        if (/Authorization: Bearer .*\n$/s.test(text)) resolve()
      })
    })
    const lines = text.split('\n').filter((line) => line.startsWith('curl'))
    const statuses = []
    for (const line of lines) {
      const [, url = ''] = /(http:\S+)/.exec(line) ?? []
      const headers = [...line.matchAll(/-H '([^:]+): ([^']*)'/g)].map(
        ([, name, value]) => [name, value] as [string, string],
      )
      const [, body] = /-d '([^']*)'/.exec(line) ?? []
      const response = await fetch(url, body === undefined ? { headers } : { method: 'POST', headers, body })
      await response.arrayBuffer()
      statuses.push(response.status)
    }
    expect(statuses).toEqual([200, 401, 200, 200])
    child.removeAllListeners('exit')
    child.kill('SIGINT')
    expect(await once(child, 'exit')).toEqual([0, null])
  })
})
