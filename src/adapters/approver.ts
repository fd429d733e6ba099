/** Who may approve, by a credential of the agent's card. */
import type { LoginResult } from '../delegation/approval-pages.ts'
import type { Guard } from '../guard.ts'
import type { RequestHead } from '../types.ts'

export async function approverOf(guard: Guard, scope: string, head: RequestHead): Promise<LoginResult> {
  const { denied, principal } = await guard.authenticate(head)
  if (denied !== undefined) return denied.denial
  // In `report` mode nobody is denied, and still nobody approves without being known.
  if (principal === undefined) return undefined
  if (principal.actor !== undefined || !principal.scopes.includes(scope))
    return { status: 403, headers: { 'cache-control': 'no-store' }, body: '' }
  return { id: principal.id }
}
