// The pages of the site, and their order, which docs/README.md decides.
import fs from 'node:fs'
import path from 'node:path'
import markdownIt from 'markdown-it'

// The folder whose pages are built: this repository, except in the test of the build's own errors.
export const root = path.resolve(process.env.REPOSITORY ?? path.join(import.meta.dirname, '..'))
const index = 'docs/README.md'

export const read = file => fs.readFileSync(path.join(root, file), 'utf8')

// output returns the file of the site that a page becomes. Folders stay, so that links between pages stay, too.
export const output = file => path.posix.join(path.posix.dirname(file), path.posix.basename(file, '.md')
  .replace(/^README$/, 'index') + '.html')

// sections returns what docs/README.md lists: each item has a name in bold, and links to pages.
function sections() {
  const all = []
  for (const { type, children } of new markdownIt().parse(read(index), {})) {
    if (type !== 'inline') continue
    let link = null
    children.forEach((token, i) => {
      if (token.type === 'strong_open') all.push({ name: children[i + 1].content, pages: [] })
      if (token.type === 'link_open') {
        link = { file: path.posix.join(path.posix.dirname(index), token.attrGet('href')), name: '' }
        all.at(-1)?.pages.push(link)
      }
      if (token.type === 'link_close') link = null
      if (link && token.type === 'softbreak') link.name += ' '
      if (link) link.name += token.content
    })
  }
  for (const page of all.flatMap(section => section.pages)) page.name = page.name[0].toUpperCase() + page.name.slice(1)
  return all
}

export const nav = sections()

// order is the order in which the pages are read.
export const order = nav.flatMap(section => section.pages)

// files are the pages: README.md, which is the front page, what docs/README.md lists, and everything else in docs.
export const files = [...new Set(['README.md', index, ...order.map(page => page.file),
  ...fs.readdirSync(path.join(root, 'docs'), { recursive: true }).filter(name => name.endsWith('.md'))
    .map(name => path.posix.join('docs', name)).sort()])]

// titleOf returns the first heading of a page.
export const titleOf = file => /^# (.*)$/m.exec(read(file))?.[1].replaceAll('`', '') ?? file

// entryOf returns the file of the entry that a page belongs to: its own, or that of its folder.
export const entryOf = file => [file, path.posix.join(path.posix.dirname(file), 'README.md')]
  .find(name => order.some(page => page.file === name))

// sectionOf returns the name of the section that has the entry of a page; the front page belongs to the first one.
export const sectionOf = file => nav.find(section => section.pages.some(page => page.file === entryOf(file)))?.name ?? nav[0].name
