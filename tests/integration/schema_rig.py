"""The schemas of docs/schema as Python sees them: validators, and a Witness that holds every message of a client against them.

A schema is read in one of three ways. As it is: what any server of the family may send. STRICT: what our server always sends is
required, too (`x-farhandSends`). PARTIAL: nothing is required, for messages of which only some members were written down.
"""

import base64
import binascii
import collections
import copy
import functools
import json
import pathlib

import jsonschema

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "docs" / "schema"
FILES = {path.name: json.loads(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.json"))}
INDEX = FILES.pop("index.json")
METHODS = INDEX["methods"]
REQUESTS = INDEX["requests"]["toClient"]  # of the server
TO_SERVER, TO_CLIENT = INDEX["notifications"]["toServer"], INDEX["notifications"]["toClient"]

AS_IS, STRICT, PARTIAL = "as it is", "strict", "partial"
OWN = "x-farhandSends"


def _rewrite(schema, form):
    """`schema` with other lists of required members. Members of objects that are called like keywords are left alone."""
    if isinstance(schema, list):
        return [_rewrite(item, form) for item in schema]
    if not isinstance(schema, dict):
        return schema
    new = {key: ({name: _rewrite(value, form) for name, value in item.items()} if key in ("properties", "$defs") else
                 _rewrite(item, form) if key not in ("const", "enum", "required", OWN) else item)
           for key, item in schema.items()}
    if form is STRICT and OWN in new:
        new["required"] = new.get("required", []) + new[OWN]
    if form is PARTIAL:
        new.pop("required", None)
    return new


@functools.lru_cache(None)
def _store(form):
    files = copy.deepcopy(FILES) if form is AS_IS else {name: _rewrite(schema, form) for name, schema in FILES.items()}
    return {(FOLDER / name).as_uri(): schema for name, schema in files.items()}


LONG = 4096


def _pattern(one, pattern, value, schema):
    """The keyword `pattern`, with a quick way for the contents of files."""
    if schema.get("contentEncoding") != "base64" or not isinstance(value, str) or len(value) < LONG:
        yield from jsonschema.Draft202012Validator.VALIDATORS["pattern"](one, pattern, value, schema)
        return
    try:
        is_good = base64.b64encode(base64.b64decode(value, validate=True)) == value.encode()
    except (binascii.Error, ValueError):
        is_good = False
    if not is_good:
        yield jsonschema.ValidationError(f"{value[:40]}… is not base64")


Validator = jsonschema.validators.extend(jsonschema.Draft202012Validator, {"pattern": _pattern})


@functools.lru_cache(None)
def validator(ref, form=AS_IS):
    """The validator of a reference as it stands in index.json: FILE or FILE#/$defs/NAME."""
    schema = {"$ref": ref}
    resolver = jsonschema.RefResolver((FOLDER / "index.json").as_uri(), schema, store=_store(form))
    return Validator(schema, resolver=resolver)


def faults(ref, value, form=AS_IS):
    """What is wrong with a value, as a list of texts."""
    found = []
    for error in validator(ref, form).iter_errors(value):
        deepest = jsonschema.exceptions.best_match([error])
        place = "/".join(map(str, deepest.absolute_path))
        found.append(f"{ref.rpartition('/')[2]}: {place or 'it'}: {deepest.message[:300]}")
    return found


def is_valid(ref, value, form=AS_IS):
    return validator(ref, form).is_valid(value)


def params_ref(method):
    return METHODS[method]["params"]["$ref"]


def answer_faults(method, message, form=STRICT):
    """What is wrong with an answer to a request of `method`; `method` None: it is not known which request it answers."""
    if "error" in message:
        found = faults("envelope.json#/$defs/RpcErrorAnswer", message, form)
        data = message["error"].get("data") if isinstance(message["error"], dict) else None
        if data is not None and method in METHODS:
            found += faults(METHODS[method]["errorData"]["$ref"], data, form)
        return found
    found = faults("envelope.json#/$defs/RpcAnswer", message, form)
    if method in METHODS:
        found += faults(METHODS[method]["result"]["$ref"], message.get("result"), form)
    elif method is not None:
        found.append(f"{method} has a result and is not in index.json")
    return found


def notification_faults(message, known=None, form=STRICT):
    known = TO_CLIENT if known is None else known
    if message["method"] not in known:
        return [f"{message['method']} is not in index.json"]
    return (faults("envelope.json#/$defs/RpcNotification", message, form) +
            faults(known[message["method"]]["params"]["$ref"], message.get("params"), form))


def request_faults(message, form=STRICT):
    """What is wrong with a request of the server."""
    if message["method"] not in REQUESTS:
        return [f"{message['method']} is not in index.json"]
    return (faults("envelope.json#/$defs/RpcRequest", message, form) +
            faults(REQUESTS[message["method"]]["params"]["$ref"], message.get("params"), form))


class Witness:
    """Holds what a client sends and gets against the schemas. `faults` is what was wrong."""

    def __init__(self):
        self.faults = []
        self.answered = collections.Counter()  # methods with a result
        self.refused = collections.Counter()  # (method, code)
        self.notified = collections.Counter()
        self._pending = collections.defaultdict(list)

    @staticmethod
    def _key(ident):
        return type(ident).__name__, json.dumps(ident)

    def sent(self, message):
        if isinstance(message, dict) and "id" in message and isinstance(message.get("method"), str):
            self._pending[self._key(message["id"])].append(message)

    def received(self, message):
        if "method" in message and "id" in message:
            found = request_faults(message)
        elif "method" in message:
            found = notification_faults(message)
            self.notified[message["method"]] += 1
        else:
            found = self._answer(message)
        self.faults += [f"{fault} in {str(message)[:600]}" for fault in found]

    def _answer(self, message):
        requests = self._pending.get(self._key(message.get("id")), [])
        best = None
        for request in requests or [{}]:  # the answers to a repeated id may come in any order
            found = self._one(request, message)
            if best is None or len(found) < len(best[0]):
                best = found, request
        if best[1]:
            requests.remove(best[1])
            if "error" in message:
                self.refused[best[1]["method"], message["error"].get("code")] += 1
            else:
                self.answered[best[1]["method"]] += 1
        return best[0]

    @staticmethod
    def _one(request, message):
        method = request.get("method")
        found = answer_faults(method, message)
        if method in METHODS and "error" not in message:
            params = faults(params_ref(method), request.get("params"))
            found += [f"params of {method} that were taken are not valid: {fault}" for fault in params]
        return found
