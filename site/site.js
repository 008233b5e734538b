// Light or dark, the search, and the button that copies code. Pages are complete without it.
'use strict'
const remembered = () => { try { return localStorage.getItem('colours') } catch { return null } }
const isDark = () => (remembered() ?? (matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light')) === 'dark'
if (remembered()) document.documentElement.style.colorScheme = remembered()

document.addEventListener('DOMContentLoaded', () => {
  const get = id => document.getElementById(id)
  const toRoot = document.body.dataset.root
  if (matchMedia('(max-width: 60rem)').matches) get('site-menu').open = false

  const colours = get('site-colours')
  const label = () => { colours.textContent = isDark() ? 'Light' : 'Dark' }
  colours.hidden = false
  colours.onclick = () => {
    const next = isDark() ? 'light' : 'dark'
    try { localStorage.setItem('colours', next) } catch { return }
    document.documentElement.style.colorScheme = next
    label()
  }
  label()

  const [dialog, words, results] = [get('site-search'), get('site-words'), get('site-results')]
  const load = name => new Promise((done, failed) => document.head.append(Object.assign(document.createElement('script'),
    { src: `${toRoot}/assets/${name}`, onload: done, onerror: failed })))
  let index
  const prepare = () => index ??= Promise.all(['minisearch.js', 'search.js'].map(load)).then(() => {
    const all = new MiniSearch({ idField: 'url', fields: ['title', 'heading', 'text'], storeFields: ['title', 'heading', 'text'],
      searchOptions: { prefix: true, fuzzy: word => word.length > 5 && 0.2, combineWith: 'AND', boost: { title: 2, heading: 4 } } })
    all.addAll(searchEntries)
    return all
  })
  // excerpt returns some text around the first word that was found, which it marks.
  const excerpt = ({ text, terms }) => {
    const at = Math.max(0, Math.min(...terms.map(term => text.toLowerCase().indexOf(term)).filter(i => i >= 0), text.length) - 40)
    const start = at && text.indexOf(' ', at) + 1
    const shown = document.createElement('p')
    const parts = text.slice(start, start + 160).split(new RegExp(`(${terms.map(RegExp.escape ?? (t => t.replace(/\W/g, '\\$&'))).join('|')})`, 'i'))
    shown.append(...parts.map((part, i) => i % 2 ? Object.assign(document.createElement('mark'), { textContent: part }) : part))
    return shown
  }
  words.oninput = async () => {
    const found = (await prepare()).search(words.value).slice(0, 20)
    get('site-count').textContent = words.value ? (found.length ? '' : 'Nothing found.') : ''
    results.replaceChildren(...found.map(entry => {
      const link = Object.assign(document.createElement('a'), { href: `${toRoot}/${entry.id}`, onclick: () => dialog.close() })
      const name = document.createElement('strong')
      name.textContent = entry.heading && entry.heading !== entry.title ? `${entry.title} › ${entry.heading}` : entry.title
      link.append(name, excerpt(entry))
      const item = document.createElement('li')
      item.append(link)
      return item
    }))
  }
  const open = () => { prepare(); dialog.showModal(); words.select() }
  get('site-find').hidden = false
  get('site-find').onclick = open
  words.form.onsubmit = event => { // Enter opens the first result
    const first = results.querySelector('a')
    if (event.submitter !== null && document.activeElement !== words || !first) return
    event.preventDefault()
    first.click()
  }
  document.addEventListener('keydown', event => {
    const isTyping = event.target.matches('input, textarea')
    if (event.key === '/' && !isTyping && !event.ctrlKey && !event.metaKey) { event.preventDefault(); open() }
    if (!dialog.open || (event.key !== 'ArrowDown' && event.key !== 'ArrowUp')) return
    const stops = [words, ...results.querySelectorAll('a')]
    const next = stops[stops.indexOf(document.activeElement) + (event.key === 'ArrowDown' ? 1 : -1)]
    if (next) { event.preventDefault(); next.focus() }
  })

  for (const figure of document.querySelectorAll('figure.code:not([data-language=""])')) {
    const button = Object.assign(document.createElement('button'), { type: 'button', textContent: 'Copy' })
    button.onclick = async () => {
      const text = figure.querySelector('code').textContent
      const commands = [...text.matchAll(/^\$ ((?:.*\\\n)*.*)$/gm)].map(found => found[1]).join('\n')
      await navigator.clipboard.writeText(figure.dataset.language === 'console' ? commands : text)
      button.textContent = 'Copied'
      setTimeout(() => { button.textContent = 'Copy' }, 2000)
    }
    figure.append(button)
  }
})
