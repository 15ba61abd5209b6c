"""What MkDocs calls while it builds the manual: pages made of the code, and links that leave docs/."""

import re
from pathlib import Path

import commands
import http_api
import links
import reference
from markup import with_plain_stars
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ASSETS = Path(__file__).parent / "assets"


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Headings get the anchors that they have where the repository is shown."""
    config.mdx_configs["toc"]["slugify"] = github_slug
    return config


def github_slug(heading: str, separator: str) -> str:
    """Lower case without punctuation; every space is a hyphen."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", separator)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made: home, reference, and the files that pages link to."""
    written = [file.src_uri for file in files.documentation_pages()]
    made = {uri: (links.ROOT / path).read_text() for path, uri in links.HOME.items()}
    made |= links.shown_sources([*written, *links.HOME.values()])
    made |= {uri: reference.page(uri) for uri in reference.PAGES}
    made["cli.md"] = commands.page()
    made["http-api.md"] = http_api.page(http_api.document())
    made["log-schema.md"] = reference.log_schema()
    for uri, text in made.items():
        files.append(File.generated(config, uri, content=text))
    for path in ASSETS.iterdir():
        files.append(File.generated(config, f"assets/{path.name}", abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links and stars as the site needs them."""
    uri = page.file.src_uri
    if uri.startswith("source/"):
        return markdown
    written = page.file.generated_by is None or uri in links.HOME.values()
    return with_plain_stars(links.rewritten(markdown, uri) if written else markdown)
