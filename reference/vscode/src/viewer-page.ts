/** Writes the page of a panel: the viewer, and a policy that lets nothing else run. */

/** Returns the page with its *script* and *style* in it; *nonce* is new for each page. */
export function viewerPage({ script, style, nonce }: { script: string; style: string; nonce: string }): string {
  if (!/^[\w-]{16,}$/.test(nonce)) throw new Error("a nonce has at least 16 letters, digits, - or _");
  const policy = `default-src 'none'; script-src 'nonce-${nonce}'; style-src 'nonce-${nonce}'; worker-src blob:; img-src data: blob:; media-src data: blob:; base-uri 'none'; form-action 'none'`;
  return `<!doctype html>
<html lang="en" dir="ltr">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<title>toyspec</title>
<style nonce="${nonce}">${style}</style>
</head>
<body>
<div id="toyspec-viewer"></div>
<script nonce="${nonce}">${script}</script>
</body>
</html>
`;
}
