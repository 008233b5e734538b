// How Markdown becomes HTML beyond what CommonMark says: links to files, anchors of headings, code, wide tables.
import fs from 'node:fs'
import path from 'node:path'
import hljs from 'highlight.js'
import { files, output, root } from './pages.js'

export const repository = 'https://github.com/retrysafe/retrysafe'

// target returns what a link of a page becomes: a page of the site, or a file or folder of the repository.
function target(page, link) {
  const [name, heading] = link.split('#')
  if (name === '' || name.includes(':')) return link
  const file = path.posix.join(path.posix.dirname(page), name)
  const found = fs.statSync(path.join(root, file), { throwIfNoEntry: false })
  if (!found) return link // check.js reports it
  const anchor = heading ? '#' + heading : ''
  if (files.includes(file)) return path.posix.relative(path.posix.dirname(page), output(file)) + anchor
  return `${repository}/${found.isDirectory() ? 'tree' : 'blob'}/main/${file}${anchor}`
}

// slug returns the anchor of a heading, as GitHub makes it.
const slug = text => text.toLowerCase().replace(/[^\p{L}\p{N}_ -]/gu, '').replaceAll(' ', '-')

const textOf = token => token.children.map(child => child.type === 'softbreak' ? ' ' : child.content).join('')

export function extend(md) {
  const escape = md.utils.escapeHtml
  md.enable('code')
  md.core.ruler.push('site', state => {
    const seen = new Map()
    state.tokens.forEach((token, i) => {
      for (const child of token.children ?? []) {
        if (child.type === 'link_open') child.attrSet('href', target(state.env.file, child.attrGet('href')))
      }
      if (token.type === 'th_open' && state.tokens[i + 1].content === '') { // a corner names nothing
        token.tag = state.tokens[i + 2].tag = 'td'
      }
      if (token.type !== 'heading_open') return
      const id = slug(textOf(state.tokens[i + 1]))
      const before = seen.get(id) ?? 0
      seen.set(id, before + 1)
      token.attrSet('id', before ? `${id}-${before}` : id)
    })
  })
  md.renderer.rules.heading_close = (tokens, i) => {
    const id = tokens.slice(0, i).findLast(token => token.type === 'heading_open').attrGet('id')
    const label = escape(`Link to: ${textOf(tokens[i - 1])}`)
    const link = tokens[i].tag === 'h1' ? '' : ` <a class="anchor" href="#${id}" aria-label="${label}">#</a>`
    return `${link}</${tokens[i].tag}>\n`
  }
  // Wide tables and long lines scroll by themselves, with the keyboard too.
  md.renderer.rules.table_open = () => '<div class="table" tabindex="0" role="group" aria-label="Table">\n<table>\n'
  md.renderer.rules.table_close = () => '</table>\n</div>\n'
  md.renderer.rules.code_block = md.renderer.rules.fence = (tokens, i) => {
    const { content, info } = tokens[i]
    const language = info.split(' ')[0]
    const file = /\bfile=(\S+)/.exec(info)?.[1]
    const code = hljs.getLanguage(language) ? hljs.highlight(content, { language }).value : escape(content)
    const caption = file ? `<figcaption>${escape(file)}</figcaption>` : ''
    const name = escape(file ?? (language ? `Code, ${language}` : 'Diagram or output'))
    return `<figure class="code" data-language="${escape(language)}">${caption}` +
      `<pre tabindex="0" role="group" aria-label="${name}"><code>${code}</code></pre></figure>\n`
  }
}
