"""A model for Claude Code, on the loopback: as scripted_model.py is one for Codex. Each value that the script yields is one block of content and answers
one request of the client; what its tools have answered is in the script's argument by the id of the call."""

import http.server
import json
import threading


def use(ident, name, **arguments):
    return {"type": "tool_use", "id": ident, "name": name, "input": arguments}


class ScriptedMessages:
    def __init__(self, script):
        self.outputs, self.tools, self.failure = {}, [], None
        steps = script(self.outputs)
        model = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *args):
                pass

            def do_GET(self):
                self.send_error(404)

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or b"{}")
                if not body.get("stream") or not body.get("tools"):  # a question on the side, which may fail
                    self.send_error(404)
                    return
                model.tools = [tool["name"] for tool in body["tools"]]
                for message in body["messages"]:
                    for item in message["content"] if isinstance(message["content"], list) else []:
                        if item.get("type") == "tool_result":
                            content = item["content"]
                            model.outputs[item["tool_use_id"]] = content if isinstance(content, str) else json.dumps(content)
                try:
                    block = next(steps, None) or {"type": "text", "text": "done"}
                except BaseException as e:  # the test shows it
                    model.failure, block = e, {"type": "text", "text": "failed"}
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.end_headers()
                for event in events(block):
                    self.wfile.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())

        def events(block):
            is_use, usage = block["type"] == "tool_use", {"input_tokens": 1, "output_tokens": 1}
            yield {"type": "message_start", "message": {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [],
                                                        "stop_reason": None, "stop_sequence": None, "usage": usage}}
            yield {"type": "content_block_start", "index": 0, "content_block": {**block, "input": {}} if is_use else {"type": "text", "text": ""}}
            yield {"type": "content_block_delta", "index": 0,
                   "delta": {"type": "input_json_delta", "partial_json": json.dumps(block["input"])} if is_use else
                            {"type": "text_delta", "text": block["text"]}}
            yield {"type": "content_block_stop", "index": 0}
            yield {"type": "message_delta", "delta": {"stop_reason": "tool_use" if is_use else "end_turn", "stop_sequence": None}, "usage": usage}
            yield {"type": "message_stop"}

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
