"""A model for Gemini CLI, on the loopback: as scripted_model.py is one for Codex. Each value that the script yields is the name of a tool and its
arguments, and answers one request of the client; what its tools have answered is in the script's argument, in order."""

import http.server
import json
import threading


class ScriptedGemini:
    def __init__(self, script):
        self.outputs, self.failure = [], None
        steps = script(self.outputs)
        model = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *args):
                pass

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or b"{}")
                if "alt=sse" not in self.path or not body.get("tools"):  # a question on the side, which may fail
                    self.send_error(404)
                    return
                parts = [part for content in body["contents"] for part in content.get("parts", [])]
                model.outputs[:] = [json.dumps(part["functionResponse"]["response"]) for part in parts if "functionResponse" in part]
                try:
                    step = next(steps, None)
                except BaseException as e:  # the test shows it
                    model.failure, step = e, None
                part = {"functionCall": {"name": step[0], "args": step[1]}} if step else {"text": "done"}
                answer = {"candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}],
                          "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}}
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.end_headers()
                self.wfile.write(f"data: {json.dumps(answer)}\n\n".encode())

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.server.shutdown()
        self.server.server_close()
        if self.failure and not exc[0]:
            raise self.failure
