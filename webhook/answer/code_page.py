"""The page of a finding code: what it means, what it looks like, how to get out, how a policy changes it."""

from webhook.answer.texts import texts
from webhook.catalog.codes import Code
from webhook.model.policy import Language


def code_page(code: Code, example: str, language: Language = Language.EN) -> str:
    """One code as Markdown. `example` is what a submitter reads; empty where there is nothing to read."""
    words = texts(language)["page"]
    sections = [
        f"# {code.code}: {code.title}",
        words["action"].format(action=code.action),
        code.meaning.strip(),
        *((f"## {words['example']}", f"```text\n{example}\n```") if example else ()),
        f"## {words['way_out']}",
        code.way_out.strip(),
        *((f"## {words['tune']}", code.tune.strip()) if code.tune else ()),
    ]
    return "\n\n".join(sections)
