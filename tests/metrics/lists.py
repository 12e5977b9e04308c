#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares what names metrics with what the renderer writes, or with --write puts its table in place.

    lists.py [--write] METRICS_TEXT ROOT    (METRICS_TEXT: the program that prints one of each)
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import tap

NAME = re.compile(r'\bgpumemd_[a-z_]*[a-z]\b')
TABLE = re.compile(r'(?<=<!-- generated: begin metrics -->\n).*?(?=<!-- end -->)', re.DOTALL)
DASHBOARD = 'metrics/grafana.json'
RULES = 'metrics/alerts.yml'
RULES_TEST = 'tests/metrics/alerts.test.yml'
DOCUMENT = 'docs/metrics.md'


def read_metrics(program):
    """Family: (type, labels in order, text); and the names of samples."""
    text = subprocess.run([program, 'all'], capture_output=True, text=True, check=True).stdout
    metrics, samples = {}, {}
    for line in text.splitlines():
        if line.startswith('# HELP '):
            _, _, name, said = line.split(' ', 3)
            metrics[name] = ['', [], said]
        elif line.startswith('# TYPE '):
            metrics[name][0] = line.split()[3]
        elif not line.startswith('#'):
            sample, labels = re.match(r'(\w+)(?:\{(.*)\})? ', line).groups()
            samples[name] = sample
            for label in re.findall(r'(\w+)="', labels or ''):
                if label not in metrics[name][1]:
                    metrics[name][1].append(label)
    return {samples[name]: found for name, found in metrics.items() if name in samples}, metrics


def make_table(metrics):
    rows = ['| metric | type | labels | what |', '|---|---|---|---|']
    for name, (kind, labels, text) in metrics.items():
        rows.append(f'| `{name}` | {kind} | {", ".join(labels)} | {text} |')
    return '\n'.join(rows) + '\n'


def read_queries(dashboard):
    """Every PromQL expression, with what Grafana puts in place of its variables."""
    def walk(value):
        if isinstance(value, dict):
            if 'expr' in value:
                yield value['expr']
            for inner in value.values():
                yield from walk(inner)
        elif isinstance(value, list):
            for inner in value:
                yield from walk(inner)

    return [re.sub(r'\$(instance|gpu_uuid)', '.*', query).replace('$__rate_interval', '5m')
            for query in walk(dashboard)]


def run(*command):
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    return [] if ran.returncode == 0 else (ran.stdout + ran.stderr).splitlines()


def check_queries(queries):
    """Prometheus's own parser, on rules made of them."""
    rules = {'groups': [{'name': 'dashboard', 'rules': [
        {'record': f'query_{n}', 'expr': query} for n, query in enumerate(queries)]}]}
    with tempfile.NamedTemporaryFile('w', suffix='.yml') as file:
        # JSON is YAML.
        json.dump(rules, file)
        file.flush()
        return run('promtool', 'check', 'rules', file.name)


def check_names(root, known):
    return [f'{path}: {name}: there is no such metric'
            for path in (DASHBOARD, RULES, RULES_TEST, 'README.md', DOCUMENT)
            for name in sorted(set(NAME.findall((root / path).read_text())) - known)]


def check_alerts(root):
    """Each alert is seen to fire, and to be still, in the unit tests of rules."""
    test = (root / RULES_TEST).read_text()
    problems = []
    for alert in re.findall(r'- alert: (\w+)', (root / RULES).read_text()):
        if not re.search(rf'alertname: {alert}\n +exp_alerts:\n +- exp_labels', test):
            problems.append(f'{alert}: never fires in {RULES_TEST}')
        if f'alertname: {alert}, exp_alerts: []' not in test:
            problems.append(f'{alert}: is never still in {RULES_TEST}')
    return problems


def test_rules(root):
    with tempfile.TemporaryDirectory() as folder:
        for path in (RULES, RULES_TEST):
            (pathlib.Path(folder) / pathlib.Path(path).name).write_text((root / path).read_text())
        return run('promtool', 'test', 'rules', f'{folder}/{pathlib.Path(RULES_TEST).name}')


def main():
    program, root = sys.argv[-2], pathlib.Path(sys.argv[-1])
    metrics, families = read_metrics(program)
    document = (root / DOCUMENT).read_text()
    wanted = TABLE.sub(lambda _: make_table(metrics), document)
    if sys.argv[1] == '--write':
        (root / DOCUMENT).write_text(wanted)
        return 0

    # What people say of a family leaves out what a counter's samples end with.
    known = set(metrics) | set(families)
    dashboard = json.loads((root / DASHBOARD).read_text())
    queries = read_queries(dashboard)
    report = tap.Report()
    report.case('each metric has a sample', sorted(name for name in families
                                                   if not {name, f'{name}_total'} & set(metrics)))
    report.case('docs/metrics.md has each metric as it is written',
                [] if document == wanted and TABLE.search(document) else ['make metrics puts it there'])
    report.case('each metric that is named is there', check_names(root, known))
    report.case('the dashboard has queries', [] if len(queries) > 10 else [str(queries)])
    report.case('Prometheus takes them', check_queries(queries))
    ids = [panel['id'] for panel in dashboard['panels']]
    report.case("no two panels have one id", [str(ids)] if len(set(ids)) < len(ids) else [])
    report.case('Prometheus takes the alerts', run('promtool', 'check', 'rules', str(root / RULES)))
    report.case('each alert is tried', check_alerts(root))
    report.case('the alerts fire as they should', test_rules(root))
    return report.finish()


if __name__ == '__main__':
    sys.exit(main())
