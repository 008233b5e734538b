// Serves SQS's protocol on 127.0.0.1. Argument: the port.
import { register } from 'node:module';

// Its persistence, which is not used here, imports a module that exists since Node 22.5.
const [major, minor] = process.versions.node.split('.').map(Number);
if (major < 22 || (major === 22 && minor < 5)) {
	const empty = 'data:text/javascript,export class DatabaseSync {}';
	register('data:text/javascript,' + encodeURIComponent(`
		export async function resolve(name, context, next) {
			return name === 'node:sqlite' ? { url: '${empty}', shortCircuit: true } : next(name, context);
		}`));
}

const { buildApp } = await import('fauxqs');
const port = Number(process.argv[2]);
const app = buildApp({ logger: false });
await app.listen({ host: '127.0.0.1', port });
