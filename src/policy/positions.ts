/** Where things stand in a text: lines, columns, JSON Pointers. */
import { step } from '../protocol/card-reader.ts'

export interface Position {
  /** 1-based. */
  readonly line: number
  /** 1-based, in UTF-16 code units. */
  readonly column: number
}

export interface Offsets {
  readonly key?: number
  readonly value: number
}

/** Turns offsets into lines and columns. */
export function lineIndex(text: string): (offset: number) => Position {
  const starts = [0]
  for (let at = text.indexOf('\n'); at !== -1; at = text.indexOf('\n', at + 1)) starts.push(at + 1)
  return (offset) => {
    let low = 0
    let high = starts.length - 1
    while (low < high) {
      const middle = (low + high + 1) >> 1
      if (starts[middle]! <= offset) low = middle
      else high = middle - 1
    }
    return { line: low + 1, column: offset - starts[low]! + 1 }
  }
}

/** Offsets of every value and key, by JSON Pointer. For text that the strict reader has already accepted. */
export function jsonOffsets(text: string): ReadonlyMap<string, Offsets> {
  const offsets = new Map<string, Offsets>()
  const token = /[{}[\],:]|"(?:[^"\\]|\\.)*"|[^\s{}[\],:"]+/g
  const next = (): RegExpExecArray | null => token.exec(text)

  const value = (first: RegExpExecArray | null, pointer: string, key?: number): void => {
    if (first === null) return
    offsets.set(pointer, key === undefined ? { value: first.index } : { key, value: first.index })
    if (first[0] === '{') {
      for (let name = next(); name !== null && name[0] !== '}'; name = next()) {
        if (name[0] === ',') continue
        next() // the colon
        value(next(), pointer + step(JSON.parse(name[0]) as string), name.index)
      }
    } else if (first[0] === '[') {
      let index = 0
      for (let item = next(); item !== null && item[0] !== ']'; item = next()) {
        if (item[0] !== ',') value(item, pointer + step(index++))
      }
    }
  }
  value(next(), '')
  return offsets
}
