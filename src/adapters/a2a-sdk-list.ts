/** ListTasks, and lists of configurations, for one caller: whatever the store behind returns, only what is theirs leaves. */
import type { ListTasksRequest, ListTasksResponse, Task } from '@a2a-js/sdk'
import { RequestMalformedError } from '@a2a-js/sdk/errors'
import type { PageTokens, Position } from '../ownership/page-token.ts'

/** Pages asked of the store for one answer, and again for counting. What is beyond is left for the next page. */
const MOST_PAGES = 20
/** A2A §3.1.4. */
const DEFAULT_PAGE_SIZE = 50
const LARGEST_PAGE = 100

export interface TaskList {
  readonly tokens: PageTokens
  /** Caller and query: what a page token is good for. */
  readonly bound: readonly (string | undefined)[]
  readonly ask: (params: ListTasksRequest) => Promise<ListTasksResponse>
  readonly isTheirs: (task: Task) => Promise<boolean>
}

/**
 * Asks page by page until there are as many tasks of the caller as are wanted. With a store that keeps callers apart that
 * is one page. The total counts the caller's own tasks, up to 2 000 beyond the page.
 */
export async function listTheirs(params: ListTasksRequest, list: TaskList): Promise<ListTasksResponse> {
  const { tokens, bound } = list
  const start = positionOf(tokens, bound, params.pageToken)
  const wanted = params.pageSize ?? DEFAULT_PAGE_SIZE
  const { tasks, cursor } = await collect(list, params, start.cursor, wanted)
  const total = start.total ?? tasks.length + (await count(list, params, cursor))
  return {
    tasks,
    nextPageToken: cursor === '' ? '' : tokens.seal(bound, { cursor, total }),
    pageSize: wanted,
    totalSize: total,
  }
}

/** The answer to a caller who has nothing that could match. */
export function emptyList({ pageSize = DEFAULT_PAGE_SIZE }: ListTasksRequest): ListTasksResponse {
  return { tasks: [], nextPageToken: '', pageSize, totalSize: 0 }
}

/** The position a token stands for; that of the first page has no total yet. */
export function positionOf(
  tokens: PageTokens,
  bound: readonly (string | undefined)[],
  token: string | undefined,
): Partial<Position> & { cursor: string } {
  if (token === undefined || token === '') return { cursor: '' }
  const position = tokens.open(bound, token)
  if (position === undefined) throw new RequestMalformedError('Invalid page token')
  return position
}

async function collect(
  { ask, isTheirs }: TaskList,
  params: ListTasksRequest,
  from: string,
  wanted: number,
): Promise<{ tasks: Task[]; cursor: string }> {
  const tasks: Task[] = []
  let cursor = from
  for (let asked = 0; asked < MOST_PAGES; asked += 1) {
    const page = await ask({ ...params, pageSize: wanted - tasks.length, pageToken: cursor })
    for (const task of page.tasks) if (await isTheirs(task)) tasks.push(task)
    cursor = page.nextPageToken
    if (cursor === '' || tasks.length >= wanted) break
  }
  return { tasks, cursor }
}

async function count(list: TaskList, params: ListTasksRequest, from: string): Promise<number> {
  let found = 0
  let cursor = from
  for (let asked = 0; asked < MOST_PAGES && cursor !== ''; asked += 1) {
    const bare = { ...params, historyLength: 0, includeArtifacts: false, pageSize: LARGEST_PAGE, pageToken: cursor }
    const page = await list.ask(bare)
    for (const task of page.tasks) if (await list.isTheirs(task)) found += 1
    cursor = page.nextPageToken
  }
  return found
}
