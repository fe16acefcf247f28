// The one place where text becomes part of the page: what our own server rendered, and nothing
// else. A browser that knows Trusted Types takes HTML from here alone.
const policy = window.trustedTypes?.createPolicy("nightcrier", { createHTML: (html) => html });

/** parse returns a document of HTML that this server rendered. */
export function parse(html) {
  return new DOMParser().parseFromString(policy ? policy.createHTML(html) : html, "text/html");
}

/** load asks this server for a page, and returns it with the address that it had in the end. */
export async function load(address) {
  const answer = await fetch(address, { headers: { Accept: "text/html" }, credentials: "same-origin" });
  const path = new URL(answer.url).pathname;
  if (path === "/login") {
    location.assign("/login?to=" + encodeURIComponent(location.pathname + location.search));
    throw new Error("logged out");
  }
  if (!answer.ok) throw new Error(String(answer.status));
  return parse(await answer.text());
}
