"""README.md and CHANGELOG.md are short; README leads to every page, with figures as measured."""

from __future__ import annotations

import pytest

from tests.test_docs import INSTALL_PAGES, READMES, ROOT, between, chapter, page, rows

README_CHARACTERS = 10_000


@pytest.mark.parametrize("name", READMES)
def test_a_newcomer_reads_the_readme_to_its_end(name):
    assert len(page(name)) <= README_CHARACTERS


@pytest.mark.parametrize(
    ("name", "where", "title"),
    [*zip(READMES, INSTALL_PAGES, ("Figures", "实测数据"), strict=True)],
)
def test_the_figures_of_the_readme_are_those_that_were_measured(name, where, title):
    measured = dict(rows(between(page(where), "figures")))
    shown = rows(chapter(page(name), title))
    assert len(shown) == 5
    assert [figure for figure, value in shown if not measured[figure].startswith(value)] == []


@pytest.mark.parametrize("name", READMES)
def test_the_readme_leads_to_every_page(name):
    language = ".zh.md" if name.endswith(".zh.md") else ".md"
    pages = {path.name.partition(".")[0]: path.name for path in ROOT.glob("docs/*.md")}
    translated = {
        one: f"{one}{language}" for one in pages if (ROOT / f"docs/{one}{language}").exists()
    }
    expected = {f"(docs/{translated.get(one, f'{one}.md')})" for one in pages}
    assert {link for link in expected if link not in page(name)} == set()


def test_the_changelog_says_what_the_program_does_and_not_how_it_came():
    """A merge of two branches (merge=union) can bring lines back that were taken out."""
    assert len(chapter(page("CHANGELOG.md"), "[Unreleased]").splitlines()) <= 60
