#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints what the pods of k8s/ run, for pod.sh: a command a line, its words apart by tabs.

    commands.py ROOT config|gpumemd|exporter|probes
"""

import pathlib
import sys

import yaml


def main():
    folder = pathlib.Path(sys.argv[1]) / 'k8s'
    documents = list(yaml.safe_load_all((folder / 'daemonset.yaml').read_text()))
    found = {document['kind']: document for document in documents}
    pod = {container['name']: container
           for container in found['DaemonSet']['spec']['template']['spec']['containers']}
    if sys.argv[2] == 'config':
        print(found['ConfigMap']['data']['gpumemd.conf'])
    elif sys.argv[2] == 'probes':
        for name in ('startupProbe', 'livenessProbe', 'readinessProbe'):
            print('\t'.join(pod['gpumemd'][name]['exec']['command']))
    else:
        print('\t'.join(pod[sys.argv[2]]['command']))


if __name__ == '__main__':
    main()
