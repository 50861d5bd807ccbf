/** What went wrong with a request, in one shape for all of them. */

export class ApiError extends Error {
  constructor(
    /** The status of the answer; 0 when there was none. */
    readonly status: number,
    readonly code: string,
    message: string,
    readonly details?: unknown,
    readonly hint?: string,
  ) {
    super(message);
    this.name = "ApiError";
  }

  /** The caller is not authenticated, or no longer. */
  get isUnauthenticated(): boolean {
    return this.status === 401;
  }
}

/** What Chromium, Firefox and Safari say when a file or the rest of an answer does not arrive. */
const connection = /dynamically imported module|module script failed|^(failed to fetch|load failed|network error|networkerror)/i;

/** The error as a caller can show it, whatever was thrown. */
export function asApiError(thrown: unknown): ApiError {
  if (thrown instanceof ApiError) return thrown;
  const message = thrown instanceof Error ? thrown.message : String(thrown);
  if (thrown instanceof TypeError && connection.test(message)) return new ApiError(0, "no-connection", "The server does not answer.", undefined, "Check the connection, then try again.");
  return new ApiError(0, "client-error", message);
}

/** The error in a response; a proxy's response can contain anything. */
export async function readError(response: Response): Promise<ApiError> {
  const text = await response.text().catch(() => "");
  try {
    const body: unknown = JSON.parse(text);
    if (isRecord(body)) return fromBody(response.status, body);
  } catch {
    // Not JSON: the status is all there is.
  }
  return new ApiError(response.status, "http-error", response.statusText || `status ${response.status}`, text.slice(0, 2000));
}

function fromBody(status: number, body: Record<string, unknown>): ApiError {
  const inner = isRecord(body["error"]) ? body["error"] : body;
  const message = inner["message"] ?? firstMessage(inner["errors"]);
  const { code, hint } = inner;
  return new ApiError(
    status,
    typeof code === "string" ? code : "http-error",
    typeof message === "string" ? message : `status ${status}`,
    inner["details"] ?? body,
    typeof hint === "string" ? hint : undefined,
  );
}

function firstMessage(errors: unknown): unknown {
  return Array.isArray(errors) && isRecord(errors[0]) ? errors[0]["message"] : undefined;
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
