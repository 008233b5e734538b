// The site: the Markdown of docs as HTML that opens from the file system. Links are relative, and the search's index is a
// script, because a page that was opened as a file may not fetch anything.
import fs from 'node:fs'
import path from 'node:path'
import { check } from './check.js'
import { extend, repository } from './markdown.js'
import { entryOf, files, nav, order, output, read, root, sectionOf, titleOf } from './pages.js'

const entities = { '&lt;': '<', '&gt;': '>', '&quot;': '"', '&#39;': "'", '&#x27;': "'", '&amp;': '&' }
const plain = html => html.replace(/<a class="anchor".*?<\/a>/g, '').replace(/<\/?(a|code|em|strong|span)\b[^>]*>/g, '')
  .replace(/<[^>]+>/g, ' ').replace(/&(\w+|#\w+);/g, found => entities[found] ?? found).replace(/\s+/g, ' ').trim()

// entries returns a page's parts for the search: each heading with the text below it.
function entries(file, html) {
  const article = /<article[^>]*>([^]*?)<\/article>/.exec(html)[1]
  return article.split(/(?=<h[123] id=)/).map(part => {
    const [, id, heading] = /^<h[123] id="([^"]+)">([^]*?)<\/h/.exec(part) ?? [null, '', '']
    return { url: output(file) + (id && '#' + id), title: titleOf(file), heading: plain(heading),
      text: plain(part.replace(/^<h[123][^]*?<\/h[123]>/, '')) }
  }).filter(entry => entry.heading || entry.text)
}

export default function (config) {
  const folder = config.directories.output
  config.setQuietMode(true)
  config.setTemplateFormats(['md'])
  config.setIncludesDirectory('.')
  config.amendLibrary('md', extend)
  config.addPassthroughCopy({
    [path.join(root, 'docs/pictures')]: 'docs/pictures',
    [path.join(root, 'cmd/retrysafe/internal/dashboard/assets/icon.svg')]: 'assets/icon.svg',
    'style.css': 'assets/style.css',
    'site.js': 'assets/site.js',
    'node_modules/minisearch/dist/umd/index.js': 'assets/minisearch.js',
  })
  config.addFilter('from', (to, file) => path.posix.relative(path.posix.dirname(output(file)), output(to)))
  config.addFilter('asset', (name, file) => path.posix.join(path.posix.relative(path.posix.dirname(file), '.'), name))
  config.addFilter('headings', html => [...html.matchAll(/<h([23]) id="([^"]+)">([^]*?)<\/h/g)]
    .map(([, level, id, text]) => ({ level, id, text: plain(text) })))
  // The front page has its own beginning: what stands before the first heading, and the pages to start with.
  config.addFilter('beginning', html => html.slice(0, html.indexOf('<h2')))
  config.addFilter('rest', html => html.slice(html.indexOf('<h2')))

  console.log(`building ${files.length} pages into ${folder}`)
  for (const file of files) {
    const at = order.findIndex(page => page.file === file)
    config.addTemplate(file, read(file), {
      layout: 'layout.njk', permalink: output(file), file, title: titleOf(file), nav, entry: entryOf(file), section: sectionOf(file),
      source: `${repository}/blob/main/${file}`, repository, isFront: file === 'README.md',
      previous: order[at - 1], next: at < 0 ? null : order[at + 1],
    })
  }
  config.on('eleventy.after', ({ results }) => {
    const all = results.flatMap(({ inputPath, content }) => entries(path.posix.normalize(inputPath), content))
    fs.writeFileSync(path.join(folder, 'assets/search.js'), `searchEntries = ${JSON.stringify(all)}\n`)
    check(results, folder)
  })
  return { markdownTemplateEngine: false }
}
