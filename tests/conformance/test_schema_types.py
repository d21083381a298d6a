"""docs/schema/farhand.d.ts: it is what scripts/schema-types makes of the schemas, and it compiles.

The compiler is `tsc`, or the program that FARHAND_TSC names; without one that part is skipped.
"""

import os
import pathlib
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TYPES = ROOT / "docs" / "schema" / "farhand.d.ts"
TSC = os.environ.get("FARHAND_TSC") or shutil.which("tsc")

# What a client does with the types. A line behind @ts-expect-error must be an error.
USE = """
import type { AnswerOf, ClientNotification, Methods, RequestOf, ServerNotification } from "./farhand";

declare function call<M extends keyof Methods>(method: M, params: Methods[M]["params"]): Promise<Methods[M]["result"]>;

export function told(m: ServerNotification): number {
  return m.method === "process/exited" ? m.params.exitCode : m.method === "process/output" ? m.params.chunk.length : 0;
}
export const start: RequestOf<"process/start"> = {
  id: 1, method: "process/start", params: {
    processId: "p", argv: ["true"], cwd: "/", env: { A: "b" }, io: { type: "pipe", stdin: "open" }, sandbox: {
      permissions: {
        type: "managed", network: "restricted", file_system: {
          type: "restricted", entries: [{ path: { type: "special", value: { kind: "root" } }, access: "read" }],
        },
      },
    },
  },
};
export const info: RequestOf = { id: "a", method: "environment/info" };
export const ready: ClientNotification = { method: "initialized" };
export function size(a: AnswerOf<"fs/writeFile">): number | undefined {
  return "error" in a ? a.error.data?.current?.size : a.result.size;
}
export const links = call("fs/getMetadata", { path: "/" }).then((r) => r.links ?? 0);
// @ts-expect-error: params are missing
export const bare: RequestOf<"process/read"> = { id: 1, method: "process/read" };
// @ts-expect-error: there is no such signal
export const stop = call("process/signal", { processId: "p", signal: "stop" });
// @ts-expect-error: not every server tells it
export const pid: Promise<number> = call("process/start", start.params).then((r) => r.pid);
// @ts-expect-error: there is no such method
export const none = call("process/none", {});
"""


def test_the_types_are_what_the_script_makes():
    done = subprocess.run([ROOT / "scripts" / "schema-types", "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_name_that_is_used_is_declared_once():
    text = re.sub(r"/\*.*?\*/|//[^\n]*|\"[^\"]*\"", "", TYPES.read_text(encoding="utf-8"), flags=re.S)
    declared = re.findall(r"^(?:export )?(?:type|interface) (\w+)", text, re.M)
    assert len(declared) == len(set(declared))
    used = set(re.findall(r"\b[A-Z]\w+", re.sub(r"<[A-Z] extends", "<", text)))
    assert used - set(declared) == {"Record"}
    assert {"ProcessStartParams", "ProcessStartResult", "Methods"} <= used


@pytest.mark.skipif(TSC is None, reason="no tsc: node-typescript, or FARHAND_TSC=PATH")
def test_the_types_compile_and_say_something(tmp_path):
    shutil.copy(TYPES, tmp_path)
    (tmp_path / "use.ts").write_text(USE, encoding="utf-8")
    done = subprocess.run([TSC, "--noEmit", "--strict", "--target", "es2020", "farhand.d.ts", "use.ts"], cwd=tmp_path,
                          capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
