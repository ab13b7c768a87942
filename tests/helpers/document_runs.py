"""Runs a document from top to bottom and says what is not as it claims."""

from __future__ import annotations

from helpers.document_blocks import Step, matches, read_steps
from helpers.document_shell import Done, Shell


def run_document(text: str, shell: Shell) -> str:
    """Return what is wrong with the first step that does not do as the document says, or nothing.

    A command may fail only where the document shows so: the next one is `echo $?`, and it shows another number than 0.
    """
    found = read_steps(text)
    for step, following in zip(found, [*found[1:], None], strict=True):
        done = shell.run_python(step.command) if step.language == "python" else shell.run(step.command)
        if wrong := _complaint(step, done, is_code_shown=following is not None and following.command == "echo $?"):
            return wrong
    return ""


def _complaint(step: Step, done: Done, *, is_code_shown: bool) -> str:
    where = f"line {step.line}: $ {step.command}"
    if done.code != 0 and (not is_code_shown or "|" in step.command):
        return f"{where}\nended with {done.code}\n{done.out}{done.err}"
    if step.claimed is not None and not (matches(step.claimed, done.out) or matches(step.claimed, done.out + done.err)):
        return f"{where}\nprinted\n{done.out}{done.err}\nand the document claims\n{step.claimed}"
    return ""
