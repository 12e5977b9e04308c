#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the documents to what they name: files, make's targets, tests, texts of the programs; to sizes, and to plain words.

    documents.py ROOT
"""

import pathlib
import re
import sys
import xml.etree.ElementTree

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import tap
import words

FRONT = ['README.md', 'CHANGELOG.md', 'CONTRIBUTING.md', 'HACKING.md', 'SECURITY.md', 'TESTING.md']
# Facts have words of their own, those of tests' names.
FACTS = 'docs/driver-facts.md'
README_LINES = 150
TESTING_BYTES = 8192
LINK = re.compile(r'\]\((?!https?:|#)([^)#\s]+)')
TARGET = re.compile(r'(?:`|^)make ([a-z][a-z-]*)(?=`| [A-Z]|\s*$|\s+#)', re.MULTILINE)
CASE = re.compile(r'`live_(\w+): (\w+)`')
SYMPTOM = re.compile(r'`([^`]+)`')
# Texts of other programs.
FOREIGN = re.compile(r'RuntimeError: |CUDA_ERROR_|nvidia-smi|GPUMEM_DEBUG=|GPUMEM_REQUIRED=|gpumemctl ')
ADJACENT = re.compile(r'"\s*\n\s*f?"')


def documents(root):
    """Path and text of each."""
    paths = [pathlib.Path(name) for name in FRONT if (root / name).exists()]
    paths += sorted(path.relative_to(root) for path in (root / 'docs').glob('*.md'))
    return {str(path): (root / path).read_text() for path in paths}


def check_links(root, texts):
    return [f'{name}: {link} is not there' for name, text in texts.items() for link in LINK.findall(text)
            if not (root / name).parent.joinpath(link).exists()]


def check_installed(root, texts):
    """All of docs/ is installed, in one folder, so a page there links to its neighbours alone."""
    installed = set(re.findall(r"'(docs/[^']+)'", (root / 'meson.build').read_text()))
    pages = {name: text for name, text in texts.items() if name.startswith('docs/')}
    return [f'{name} is not installed' for name in sorted(set(pages) - installed)] + [
        f'{name}: {link} is not installed' for name, text in pages.items() for link in LINK.findall(text)
        if (root / 'docs' / link).exists() and f'docs/{link}' not in installed]


def check_targets(root, texts):
    known = set(re.findall(r'^([a-z][a-z-]*):', (root / 'Makefile').read_text(), re.MULTILINE))
    return [f'{name}: make {target}: the Makefile has no such target'
            for name, text in texts.items() for target in sorted(set(TARGET.findall(text)) - known)]


def check_sizes(texts):
    n_lines, n_bytes = len(texts['README.md'].splitlines()), len(texts['TESTING.md'].encode())
    return ([f'README.md has {n_lines} lines; allowed are {README_LINES}'] if n_lines > README_LINES else []) + (
        [f'TESTING.md has {n_bytes} bytes; allowed are {TESTING_BYTES}'] if n_bytes > TESTING_BYTES else [])


def check_cases(root, texts):
    problems = []
    for name, text in texts.items():
        for program, case in CASE.findall(text):
            paths = list(root.glob(f'tests/live/*/test_{program}.c'))
            if not any(re.search(rf'^TEST\({case}[,)]', path.read_text(), re.MULTILINE) for path in paths):
                problems.append(f'{name}: live_{program} has no case {case}')
    return problems


def source_texts(root):
    """All texts of programs, those that are written in several parts put together."""
    parts = [ADJACENT.sub('', (root / path).read_text())
             for path in tap.project_files(root, '.c', '.h', '.def', '.py')
             if path.parts[0] in ('base', 'client', 'ctl', 'daemon', 'driver', 'include', 'proto', 'python')]
    return '\n'.join(parts)


def symptoms(text):
    """The texts that the first column of tables quotes, of programs of this project."""
    for line in text.splitlines():
        for quoted in SYMPTOM.findall(line.split('|')[1]) if line.startswith('| `') else []:
            if not FOREIGN.match(quoted):
                yield quoted


def check_symptoms(root, texts):
    text, sources = texts.get('docs/troubleshooting.md', ''), source_texts(root)
    return [f'"{quoted}": no program says "{part.strip()}"' for quoted in symptoms(text)
            for part in quoted.split('...') if part.strip() not in sources]


def check_pictures(root):
    """A browser shows nothing of one that is not well-formed, or that has no size."""
    problems = []
    for path in sorted((root / 'docs').glob('*.svg')):
        try:
            picture = xml.etree.ElementTree.parse(path).getroot()
        except xml.etree.ElementTree.ParseError as error:
            problems.append(f'{path.name}: {error}')
            continue
        if not picture.tag.endswith('}svg') or 'viewBox' not in picture.attrib:
            problems.append(f'{path.name}: it is not an SVG with a viewBox')
    return problems


def check_words(texts):
    return [f'{name}:{number}: {line.strip()[:100]}' for name, text in texts.items() if name != FACTS
            for number, line in enumerate(text.splitlines(), 1) if words.VAGUE.search(line)]


def main():
    root = pathlib.Path(sys.argv[1])
    texts = documents(root)
    report = tap.Report()
    report.case('what documents link to is there', check_links(root, texts))
    report.case('what is in docs/ is installed, and what it links to', check_installed(root, texts))
    report.case('targets of make that documents name are there', check_targets(root, texts))
    report.case('README.md and TESTING.md are short', check_sizes(texts))
    report.case('tests that documents name are there', check_cases(root, texts))
    report.case('texts that docs/troubleshooting.md quotes are those of the programs', check_symptoms(root, texts))
    report.case('pictures can be shown', check_pictures(root))
    report.case('documents have plain words', check_words(texts))
    return report.finish()


if __name__ == '__main__':
    sys.exit(main())
