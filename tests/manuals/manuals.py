#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the manual pages with the programs, the header and the sources, and has them read by man and mandoc.

    manuals.py SOURCE PAGES GPUMEMD GPUMEMCTL EXPORTER BENCH DEFAULTS    (PAGES: the folder in which they were made)
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import tap

# The library's: the overview, and one for each group of functions.
OVERVIEW = 'gpumem.3'
GROUPS = [f'gpumem-{name}.3' for name in ('connect', 'allocate', 'streams', 'capture', 'registered', 'share', 'statistics',
                                          'events', 'adapters')]
CPP = 'gpumem-cpp.3'
PAGES = ['gpumemd.8', 'gpumemctl.1', 'gpumemd-exporter.8', 'gpumemd.conf.5', OVERVIEW, *GROUPS, CPP, 'gpumem-protocol.7',
         'gpumem-bench.1']
HEADERS = ['include/gpumem.h', 'include/gpumem-statistics.h', 'include/gpumem-adapters.h']
CPP_HEADERS = ['include/gpumem.hpp', 'include/gpumem-resources.hpp']
OPTION = re.compile(r'(?<![\w-])--[a-z][a-z-]*')
TAG = re.compile(r'^\.TP\n(.*)\n((?:(?!\.TP|\.SH|\.SS|\.PP).*\n)*)', re.MULTILINE)
VARIABLE = re.compile(r'"(GPUMEM_(?!E_|TEST_)[A-Z_]+)"')
SHARED = 'as in gpumemctl --help'
# What is installed beside the pages, and what else who has no sources is sent to.
DOCUMENTS = ['docs/c.md', 'docs/concepts.md', 'docs/configuration.md', 'docs/emulator.md', 'docs/gpumemd.conf.example',
             'docs/metrics.md', 'docs/operations.md', 'docs/scale.md', 'docs/troubleshooting.md', 'docs/versions.md', *HEADERS, *CPP_HEADERS,
             'metrics/alerts.yml', 'proto/PROTOCOL.md', *(f'k8s/{name}.yaml' for name in ('client-pod', 'daemonset', 'gpumemd.cdi'))]
FILE = re.compile(r'(?<![\w./@$-])[\w-]+(?:/[\w.-]+)*/?[\w.-]*\w')
SOURCES_ONLY = {'HACKING.md', 'TESTING.md', 'RESULTS.md'}
ALLOWED = re.compile(r'unknown key \(expected (.*)\)')

# What a default of the program is called in the page: (its line's first word, the sentence).
DEFAULTS = {
    'tenants': r'`"client"`, see below; default: `(\S+)` \|',
    'backing': r'say its `backing`\. `(\S+)`, the default',
    'ipc': r'say its `ipc`\. `(\S+)`, the default',
    'min_bytes': r'`min_bytes`, (\d+) by default',
    'drain_seconds': r'see below; default: (\d+), not at all',
    'warm_bytes': r'when gpumemd starts; (\d+) by default',
    'connections': r'`connections`, (\d+) by default',
    'file': r'gpumemd reads `([^`]+)`, if it is there',
}
POOLS = 'Pools without an entry: all of a GPU\'s memory, a quarter of a node\'s.'
WHOLE_POOLS = {'device of 4 GiB': '4 GiB', 'pinned of 4 GiB': '1 GiB'}


def output_of(*command, **others):
    ran = subprocess.run(command, capture_output=True, text=True, check=False, **others)
    return ran.stdout + ran.stderr


def plain(page):
    """A page's text without its marks."""
    text = re.sub(r'\\f[BRIP]', '', page)
    text = text.replace('\\(ti', '~').replace('\\(ga', '`').replace('\\(ha', '^')
    return text.replace('\\-', '-').replace('\\(aq', "'").replace('\\&', '').replace('\\e', '\\')


def section(page, title):
    """The lines below .SH TITLE."""
    match = re.search(rf'^\.SH {re.escape(title)}\n(.*?)(?=^\.SH |\Z)', page, re.MULTILINE | re.DOTALL)
    return match[1] if match else ''


def tags(text):
    return {tag: ' '.join(lines.split()) for tag, lines in TAG.findall(text)}


def differ(where, told, known):
    """Names of one side that the other has not."""
    return ([f'{where}: {name} is not in the manual' for name in sorted(known - told)] +
            [f'{where}: {name} is in the manual only' for name in sorted(told - known)])


def check_read(pages, name):
    """What man and mandoc have to complain of."""
    path = str(pages / name)
    ran = subprocess.run(['man', '--warnings', '-E', 'UTF-8', '-l', path], capture_output=True, text=True,
                         check=False, stdin=subprocess.DEVNULL,
                         env={**os.environ, 'LC_ALL': 'C.UTF-8', 'MANWIDTH': '80', 'PAGER': 'cat'})
    return (ran.stderr.splitlines() + ([] if 'SEE ALSO' in ran.stdout else ['man shows no end of it']) +
            [f'what is not to be seen: {mark}' for mark in ('\\|', ': ;', 'meaning: ') if mark in ran.stdout] +
            output_of('mandoc', '-Tlint', '-W', 'warning', path).splitlines())


def option_tags(text):
    """Each option of a part of the page, with what is said of it."""
    told = {}
    for tag, about in tags(text).items():
        for option in OPTION.findall(tag) if tag.startswith('--') else []:
            told[option] = about
    return told


def command_parts(page):
    """What the page has of each command."""
    return dict(re.findall(r'^\.SS (.*)\n((?:(?!\.SS ).*\n)*)', section(page, 'COMMANDS'), re.MULTILINE))


def help_options(text):
    """Options in the first line and at the beginnings of others, but those that a command shares with all."""
    first, *others = text.splitlines()
    return set(OPTION.findall(' '.join([first, *(line for line in others if line.startswith('  --') and
                                                 not line.endswith(SHARED))])))


def help_commands(text):
    return re.findall(r'^  ([a-z][a-z-]+) ', text, re.MULTILINE)


def check_command(parts, name, text):
    """A command's part of the page, and its help: options, and words that the help explains."""
    if name not in parts:
        return [f'{name} has no part']
    words = set(re.findall(r'[A-Za-z_~?=.-]+', parts[name].replace('\n', ' ')))
    explained = re.findall(r'^  ([A-Za-z-]+|[=~?.]) {2,}', text, re.MULTILINE)
    return [f'{name}: {word} is not explained' for word in explained if word not in words] + differ(name, set(option_tags(parts[name])), help_options(text))


def help_defaults(text):
    """What the help says after "default:" of an option: values, by what is in them or for want of other words."""
    defaults = {}
    for entry in re.findall(r'^  --.*\n(?: {3,}.*\n)*', text, re.MULTILINE):
        clause = re.split(r'[;.] |$', ' '.join(entry.partition('default: ')[2].split()))[0]
        words = re.findall(r'[\w$./-]*\w', clause)
        if clause:
            defaults[OPTION.search(entry)[0]] = [word for word in words
                                                 if len(words) == 1 or re.search(r'[\d$/.]', word)]
    return defaults


def check_defaults_of_options(part, text):
    told = option_tags(part)
    wrong = []
    for option, words in help_defaults(text).items():
        said = told.get(option, '').partition('default: ')[2]
        wrong += [f'{option}: "{word}" is not among its defaults: {said}'
                  for word in words if word not in said]
    return wrong


def keys_of(gpumemd):
    """The keys that each part of the configuration may have, as the program names them."""
    nothing = {'x': 1}
    text = json.dumps({**nothing, 'pools': [nothing], 'each_user': nothing,
                       'limits': {**nothing, 'client': nothing, 'tenants': [nothing]}})
    with tempfile.NamedTemporaryFile('w', suffix='.conf') as file:
        file.write(text)
        file.flush()
        said = output_of(gpumemd, '--check-config', file.name)
    return [re.findall(r'"(\w+)"', match) for match in ALLOWED.findall(said)]


def check_keys(page, keys):
    first = TAG.search(section(page, 'DESCRIPTION'))
    table = re.match(r'(?:\.TP\n.*\n(?:(?!\.).*\n)*)+', section(page, 'DESCRIPTION')[first.start():])[0]
    named = set(re.findall(r'\w+', page))
    return (differ('the table of keys', set(tags(table)), set(keys[0])) +
            [f'{key} is not in the manual' for part in keys for key in part if key not in named])


def check_defaults(source, lines):
    text = re.sub(r'\s+', ' ', (source / 'docs/configuration.md').read_text())
    wrong = [] if POOLS in text else [f'it does not say: {POOLS}']
    for name, value in lines.items():
        match = re.search(DEFAULTS.get(name, '$^'), text)
        if name in WHOLE_POOLS:
            wrong += [] if value == WHOLE_POOLS[name] else [f'{name}: it is {value}']
        elif not match or match[1] != value:
            wrong.append(f'{name}: it is {value}, the manual says {match and match[1]}')
    return wrong + [f'{name}: the program does not say it'
                    for name in [*DEFAULTS, *WHOLE_POOLS] if name not in lines]


def defaults_of(program):
    lines = [line.rpartition(' ') for line in output_of(program).splitlines()]
    return {('device of 4 GiB' if name.startswith('device') else 'pinned of 4 GiB')
            if value == 'GiB' else name:
            f'{name.split()[-1]} GiB' if value == 'GiB' else value for name, _, value in lines}


def check_references(pages):
    """Pages of ours that the pages name are there, and each is named under SEE ALSO of another."""
    names = {f'{name}({number})' for name, _, number in (page.rpartition('.') for page in PAGES)}
    wrong, others = [], set()
    for title, page in pages.items():
        said = set(re.findall(r'\bgpumem[\w.-]*\([1-9]\)', page))
        wrong += [f'{title}: there is no {name}' for name in sorted(said - names)]
        name, _, number = title.rpartition('.')
        others |= set(re.findall(r'\bgpumem[\w.-]*\([1-9]\)', section(page, 'SEE ALSO'))) - {f'{name}({number})'}
    return wrong + [f'no page names {name}' for name in sorted(names - others)]


def check_variables(source, pages):
    """Variables of the environment that the sources ask for, and those that pages list."""
    known = set()
    for folder in ('base', 'client', 'ctl', 'daemon', 'driver', 'metrics', 'proto'):
        for path in (source / folder).rglob('*.[ch]'):
            known |= set(VARIABLE.findall(path.read_text()))
    told = {tag for page in pages.values() for tag in tags(section(page, 'ENVIRONMENT'))
            if tag.startswith('GPUMEM_')}
    return differ('environment', told, known)


def check_files(source, name, text):
    """What is installed names no file of the sources that is not."""
    said = set(FILE.findall(text))
    return [f'{name}: {file} is not installed' for file in sorted(said)
            if file in SOURCES_ONLY or '/' in file and not file.startswith('k8s/') and (source / file).is_file()]


def functions_of(page):
    """Those that have a part of a group's page, and those that its declarations name."""
    part = section(page, 'TYPES AND FUNCTIONS')
    titles = ' '.join(re.findall(r'^\.SS (.*)', part, re.MULTILINE))
    return set(re.findall(r'(gpumem_\w+)\(\)', titles)), set(re.findall(r'^(?!\.SS).*?\b(gpumem_\w+)\(', part, re.MULTILINE))


def check_functions(source, pages):
    """Each function has a part of one group's page, a declaration there, a row of the overview, and a page that leads there."""
    headers = [source / path for path in HEADERS]
    names = {name for path in headers
             for name in re.findall(r'^GPUMEM_API[^;]*?\b(gpumem_\w+)\(', path.read_text(), re.MULTILINE)}
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, source / 'man/header.py', '--links', folder, *headers], check=True)
        links = {path.stem: path.read_text() for path in pathlib.Path(folder).iterdir()}
    rows = tags(section(pages[OVERVIEW], 'PAGES'))
    wrong, told = [] if names else ['there are none'], set()
    for title in GROUPS:
        titles, declared = functions_of(pages[title])
        name = title.removesuffix('.3')
        wrong += differ(title, titles & told, set()) + differ(f'{title}: declarations', declared & titles, titles)
        wrong += differ(f'the row of {title}', set(re.findall(r'gpumem_\w+', rows.get(f'{name}(3)', ''))), titles)
        wrong += [f'{link}.3 does not lead to {title}' for link in sorted(titles)
                  if links.get(link) != f'.so man3/{title}\n']
        told |= titles
    return wrong + differ('functions', told, names) + differ('pages of their own', set(links), names)


def check_cpp(source, page):
    """Each name of the C++ headers is in their page, but those of namespace detail."""
    texts = [re.sub(r'^namespace detail \{.*?^\} // namespace detail$', '', (source / path).read_text(),
                    flags=re.MULTILINE | re.DOTALL) for path in CPP_HEADERS]
    known = {name for text in texts for name in re.findall(
        r'^(?:template <.*> ?)?(?:class|struct|using|inline [\w:]+) (\w+)(?=[ (:{])', text, re.MULTILINE)}
    said = set(re.findall(r'\w+', page))
    return ([] if len(known) > 15 else [f'names: {sorted(known)}']) + [
        f'{name} is not in the manual' for name in sorted(known - said)]


def check_summaries(pages):
    """The overview says of each group what its page is called."""
    rows = tags(section(pages[OVERVIEW], 'PAGES'))
    summaries = {title: section(pages[title], 'NAME').strip().partition(' - ')[2] for title in GROUPS}
    return [f'{title}: {summary}' for title, summary in summaries.items()
            if not summary or not rows.get(f'{title.removesuffix(".3")}(3)', '').startswith(f'{summary}: ')]


def check_examples(source, pages):
    """Each page of the library shows a file of man/examples, and each file is shown."""
    shown = {title: re.search(r'^\$ (?:cc|c\+\+ -std=\S+) (\S+)', section(pages[title], 'EXAMPLE'), re.MULTILINE)
             for title in [OVERVIEW, *GROUPS, CPP]}
    files = {path.name: path.read_text() for path in (source / 'man/examples').iterdir()}
    wrong = [f'{title} compiles nothing' for title, match in shown.items() if not match]
    for title, match in shown.items():
        lines = files.get(match[1], 'int none;').splitlines()[1:] if match else []
        wrong += [f'{title} lacks: {line}' for line in lines if line not in pages[title]]
    return wrong + differ('examples', {match[1] for match in shown.values() if match}, set(files))


def report_programs(report, pages, programs):
    """What the programs say of their options, beside the pages' lists of them."""
    for name, program in programs.items():
        text, options = output_of(program, '--help'), section(pages[name], 'OPTIONS')
        report.case(f'the options of {name} are those of its program',
                    differ(name, set(option_tags(options)), help_options(text)))
        report.case(f'{name} says what is so by default', check_defaults_of_options(options, text))


def check_events(source, part):
    """What can have happened."""
    known = re.findall(r'^EVENT\(\w+, ([a-z ]+),', (source / 'proto/event_kinds.def').read_text(), re.MULTILINE)
    text = ' '.join(part.split())
    return ([] if known else ['there is nothing']) + [
        f'events: {name} is not in the manual' for name in known if not re.search(rf'\b{name}\b', text)]


def report_commands(report, source, page, gpumemctl):
    parts, names = command_parts(page), help_commands(output_of(gpumemctl, '--help'))
    report.case('the commands of gpumemctl are those of its page, in the same order',
                differ('gpumemctl', set(parts), set(names)) or
                ([] if [*parts] == names else [f'the page has them as {[*parts]}']))
    for name in names:
        text = output_of(gpumemctl, name, '--help')
        report.case(f'the options of gpumemctl {name}, and what is so by default, are those of its part',
                    check_command(parts, name, text) +
                    check_defaults_of_options(parts.get(name, ''), text))
    report.case('what can have happened is in the part of events', check_events(source, parts.get('events', '')))


def main():
    source, folder = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    gpumemd, gpumemctl, exporter, bench, defaults = sys.argv[3:8]
    pages = {name: plain((folder / name).read_text()) for name in PAGES}

    report = tap.Report()
    for name in PAGES:
        report.case(f'man and mandoc read {name} without a complaint', check_read(folder, name))
    report_programs(report, pages, {'gpumemd.8': gpumemd, 'gpumemctl.1': gpumemctl,
                                    'gpumemd-exporter.8': exporter, 'gpumem-bench.1': bench})
    report.case('the commands of gpumem-bench are those of its page',
                differ('gpumem-bench', set(tags(section(pages['gpumem-bench.1'], 'COMMANDS'))),
                       set(help_commands(output_of(bench, '--help')))))
    report_commands(report, source, pages['gpumemctl.1'], gpumemctl)
    keys = keys_of(gpumemd)
    report.case('the keys of the configuration are those of its page',
                check_keys(pages['gpumemd.conf.5'], keys) if len(keys) == 6 else [f'keys: {keys}'])
    report.case('what holds where the configuration says nothing is as its page says',
                check_defaults(source, defaults_of(defaults)))
    report.case('every function of the library is in the page of its group, and has one that points there',
                check_functions(source, pages))
    report.case('the overview has the summary of each group', check_summaries(pages))
    report.case('every name of the C++ headers is in their page', check_cpp(source, pages[CPP]))
    report.case('each page of the library has its example', check_examples(source, pages))
    documents = {name: (source / name).read_text() for name in DOCUMENTS}
    report.case('what is installed names no files that are not',
                [wrong for name, text in {**pages, **documents}.items() for wrong in check_files(source, name, text)])
    report.case('the pages name each other', check_references(pages))
    report.case('the variables of the environment are those of the pages',
                check_variables(source, pages))
    return report.finish()


if __name__ == '__main__':
    sys.exit(main())
