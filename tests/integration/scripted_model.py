"""A model for the real client, on the loopback: it asks for what a script of the test says, and hands the script what came of it.

A script is a generator that is given the texts which the client has sent back so far, by the id of their call; each value that it yields
is a list of items and answers one request of the client. What the client's reviewer of approvals asks is answered with a verdict.
"""

import http.server
import json
import re
import threading


def call(ident, name, **arguments):
    return {"type": "function_call", "call_id": ident, "name": name, "arguments": json.dumps(arguments)}


def say(text):
    return {"type": "message", "role": "assistant", "id": "m", "content": [{"type": "output_text", "text": text}]}


def exit_code(text):
    found = re.search(r"^Process exited with code (-?\d+)$", text, re.M)
    return int(found[1]) if found else None


def session_id(text):
    found = re.search(r"^Process running with session ID (\d+)$", text, re.M)
    return int(found[1]) if found else None


class ScriptedModel:
    def __init__(self, script, verdict=None):
        self.outputs, self.failure, self.reviews = {}, None, []
        steps = script(self.outputs)
        model = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *args):
                pass

            def do_GET(self):
                self.send_error(404)

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                for item in body.get("input", []):
                    if item.get("type") == "function_call_output":
                        output = item["output"]
                        model.outputs[item["call_id"]] = output if isinstance(output, str) else json.dumps(output)
                try:
                    if "format" in (body.get("text") or {}):
                        model.reviews.append(body)
                        items = [say(json.dumps(verdict))]
                    else:
                        items = next(steps, None) or [say("done")]
                except BaseException as e:  # the test shows it
                    model.failure, items = e, [say("failed")]
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.end_headers()
                usage = dict.fromkeys(("input_tokens", "output_tokens", "total_tokens"), 0)
                events = [{"type": "response.created", "response": {"id": "r"}},
                          *({"type": "response.output_item.done", "item": item} for item in items),
                          {"type": "response.completed", "response": {"id": "r", "usage": usage}}]
                for event in events:
                    self.wfile.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/v1"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def codex_args(self, directory):
        """Returns arguments with which `codex` works in `directory` and asks this model alone."""
        provider = (f'{{name="m",base_url="{self.url}",wire_api="responses",requires_openai_auth=false,request_max_retries=0,'
                    'stream_max_retries=0,stream_idle_timeout_ms=120000}')
        config = ['model_provider="m"', f"model_providers.m={provider}", 'model="gpt-5.5"', 'approval_policy="never"',
                  "check_for_update_on_startup=false", "analytics.enabled=false", "features.plugins=false", "features.apps=false",
                  "features.unified_exec=true"]
        options = [word for one in config for word in ("-c", one)]
        return ["exec", "--skip-git-repo-check", "--json", "-C", directory, "-s", "danger-full-access", *options, "go"]

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.server.shutdown()
        self.server.server_close()
        if self.failure and not exc[0]:
            raise self.failure
