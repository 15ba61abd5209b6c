// Requests to the service this page came from, with the token that the user gave, if any.

export class Refusal extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export const keep = (token) => sessionStorage.setItem("token", token);

export async function ask(path, { body, signal } = {}) {
  const token = sessionStorage.getItem("token");
  const headers = token ? { Authorization: "Bearer " + token } : {};
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const text = body === undefined ? undefined : JSON.stringify(body);
  const answer = await fetch(path, { method: text ? "POST" : "GET", headers, body: text, signal });
  const found = await answer.json().catch(() => ({ error: { message: `the service answered ${answer.status}` } }));
  if (!answer.ok) throw new Refusal(answer.status, found.error.message);
  return found;
}

// What went wrong, for people: which scope is missing is in the service's own words.
export function explained(error) {
  if (error instanceof TypeError) return "no connection; trying again";
  if (error.status === 401) return "a token is needed";
  return error.message;
}
