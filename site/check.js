// What is checked of the finished site: every link inside of it leads to a file, and to an anchor, that exist, and no
// page loads anything from elsewhere, and each anchor is that of one thing.
import fs from 'node:fs'
import path from 'node:path'

export function check(results, folder) {
  const [problems, anchors] = [[], new Map()]
  let links = 0
  for (const { outputPath, content } of results) {
    const ids = [...content.matchAll(/ id="([^"]+)"/g)].map(found => found[1])
    anchors.set(path.resolve(outputPath), new Set(ids))
    problems.push(...ids.filter((id, i) => ids.indexOf(id) < i).map(id => `${outputPath}: ${id} is the anchor of two things`))
  }
  for (const { outputPath, content } of results) {
    for (const [, kind, link] of content.matchAll(/ (href|src)="([^"]*)"/g)) {
      const [name, anchor] = link.replaceAll('&amp;', '&').split('#')
      if (/^[a-z]+:/.test(name)) {
        if (kind === 'src') problems.push(`${outputPath}: ${link} is loaded from elsewhere`)
        continue
      }
      links++
      const file = path.resolve(path.dirname(outputPath), name || path.basename(outputPath))
      if (!fs.existsSync(file)) problems.push(`${outputPath}: the link ${link} leads nowhere`)
      else if (anchor && !anchors.get(file)?.has(anchor)) problems.push(`${outputPath}: the link ${link} names no heading`)
    }
  }
  if (problems.length) throw new Error(`broken links and anchors:\n${[...new Set(problems)].join('\n')}`)
  console.log(`${results.length} pages, ${links} links inside of ${folder} lead somewhere`)
}
