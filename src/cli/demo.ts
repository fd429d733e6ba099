import { parseArgs } from 'node:util'
import { exit, fail, type Io } from './io.ts'

/** `demo [--serve]`. Needs express, @a2a-js/sdk and oidc-provider, which the library itself does not. */
export async function demoCommand(args: readonly string[], io: Io): Promise<number> {
  const { values } = parseArgs({ args: [...args], options: { serve: { type: 'boolean', default: false } } })
  try {
    const { runDemo } = await import('./demo/run.ts')
    return await runDemo(values, io)
  } catch (fault) {
    if ((fault as { code?: unknown }).code !== 'ERR_MODULE_NOT_FOUND') throw fault
    fail(
      io,
      'the demo needs packages that are not installed',
      'npm install --save-dev express @a2a-js/sdk oidc-provider',
    )
    return exit.fault
  }
}
