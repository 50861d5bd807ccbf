// Prints a line for the opening, for each message and for the end of a WebSocket.
import WebSocket from "ws";

const socket = new WebSocket(process.argv[2]);
const tell = (kind, value) => console.log(JSON.stringify({ kind, value }));

socket.on("open", () => tell("open", socket.extensions));
socket.on("message", (data, isBinary) => tell(isBinary ? "binary" : "text", data.toString()));
socket.on("close", (code, reason) => tell("close", [code, reason.toString()]));
socket.on("error", (error) => tell("error", error.message));
