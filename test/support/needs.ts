/**
 * What tests need beside Node, before any of them runs: `redis-server`. Installed from Debian where this process may do so;
 * elsewhere the run fails with the one command that does. Nothing is skipped for want of it.
 */
import { spawnSync } from 'node:child_process'

const COMMAND = 'apt-get update && apt-get install -y --no-install-recommends redis-server'

export default function setup(): void {
  if (isThere()) return
  if (process.getuid?.() === 0 && spawnSync('apt-get', ['--version']).status === 0) {
    // No service: tests start their own on ports of their own, and end them.
    const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive', RUNLEVEL: '1' }
    const { stderr } = spawnSync('sh', ['-c', COMMAND], { env, encoding: 'utf8', timeout: 300_000 })
    if (isThere()) return
    throw new Error(`redis-server cannot be installed: ${stderr.trim().split('\n').at(-1)}`)
  }
  throw new Error(`the tests need redis-server. This installs it on Debian, as root:\n  ${COMMAND}`)
}

function isThere(): boolean {
  return spawnSync('redis-server', ['--version']).status === 0
}
