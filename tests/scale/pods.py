#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Do the files of k8s/ keep what docs/scale.md promises?

    pods.py ROOT
"""

import json
import pathlib
import re
import sys

import yaml

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import tap

N_NODES = 2  # NUMA nodes of a machine: each has a pool of its own
SOCKET = '/run/gpumemd'
UNITS = {'Mi': 2 ** 20, 'Gi': 2 ** 30, 'MiB': 2 ** 20, 'GiB': 2 ** 30}


def n_bytes(text):
    number, unit = re.fullmatch(r'([0-9]+)([A-Za-z]+)', text).groups()
    return int(number) * UNITS[unit]


def read(path):
    return list(yaml.safe_load_all(path.read_text()))


def pick(documents, kind):
    return next(document for document in documents if document['kind'] == kind)


def containers(pod):
    return pod.get('initContainers', []) + pod['containers']


def check_unprivileged(pod):
    """Nothing of the host but its folder, no more rights than any program has."""
    problems = [f'{name}: {pod[name]}' for name in ('hostPID', 'hostIPC', 'hostNetwork') if pod.get(name)]
    if pod.get('automountServiceAccountToken') is not False:
        problems.append('it gets a token of the cluster')
    if pod['securityContext'].get('seccompProfile') != {'type': 'RuntimeDefault'}:
        problems.append('no seccomp profile')
    for container in containers(pod):
        name, rights = container['name'], container['securityContext']
        if rights.get('privileged'):
            problems.append(f'{name} is privileged')
        if rights.get('allowPrivilegeEscalation') is not False:
            problems.append(f'{name} may gain privileges')
        if rights.get('readOnlyRootFilesystem') is not True:
            problems.append(f'{name} has a writable root')
        if rights['capabilities'].get('drop') != ['ALL']:
            problems.append(f'{name} keeps capabilities')
        if rights['capabilities'].get('add', []) not in ([], ['CHOWN']) or (
                'add' in rights['capabilities'] and container in pod['containers']):
            problems.append(f'{name} has capabilities')
    for container in pod['containers']:
        if {**pod['securityContext'], **container['securityContext']}.get('runAsNonRoot') is not True:
            problems.append(f"{container['name']} may be root")
    return problems


def check_volumes(pod):
    hosts = [volume['hostPath']['path'] for volume in pod.get('volumes', []) if 'hostPath' in volume]
    return [f'{path} of the host' for path in hosts if path != SOCKET]


def check_readers(pod):
    """Who does not serve has the folder to read."""
    return [f"{container['name']} may write to {SOCKET}"
            for container in pod['containers'] if container['name'] != 'gpumemd'
            for mount in container.get('volumeMounts', [])
            if mount['mountPath'] == SOCKET and not mount.get('readOnly')]


def check_no_gpu_is_taken(pod):
    return [f"{container['name']}: {resource}" for container in containers(pod)
            for resources in container.get('resources', {}).values()
            for resource in resources if resource.startswith('nvidia.com/')]


def check_memory(pod, config):
    """What is pinned is charged to the container that serves it."""
    pinned = N_NODES * sum(n_bytes(pool['max_bytes']) for pool in config['pools'] if 'pinned' in pool)
    limit = next(n_bytes(container['resources']['limits']['memory'])
                 for container in pod['containers'] if container['name'] == 'gpumemd')
    return [] if pinned and limit >= pinned + 256 * 2 ** 20 else [f'{limit} bytes for {pinned} pinned']


def check_users(daemon, client):
    """Who owns the socket is who makes it, and its group is one of the client's."""
    user, group = (daemon['securityContext'][name] for name in ('runAsUser', 'runAsGroup'))
    problems = []
    if daemon['initContainers'][0]['command'] != ['chown', f'{user}:{group}', SOCKET]:
        problems.append('the folder is given to another user')
    if group not in client['securityContext'].get('supplementalGroups', []):
        problems.append('the client is not of the socket\'s group')
    return problems


def check_client(pod):
    """The volume is the host's folder, each container has it to read, and finds the socket there."""
    [volume] = [volume['name'] for volume in pod['volumes'] if volume['hostPath']['path'] == SOCKET]
    mount = {'name': volume, 'mountPath': SOCKET, 'readOnly': True}
    variable = {'name': 'GPUMEM_SOCKET', 'value': f'{SOCKET}/gpumemd.sock'}
    return [container['name'] for container in pod['containers']
            if mount not in container['volumeMounts'] or variable not in container['env']]


def check_cdi(cdi):
    edits = cdi['devices'][0]['containerEdits']
    problems = []
    if not re.fullmatch(r'[A-Za-z][\w.-]*/[A-Za-z][\w-]*', cdi['kind']):
        problems.append(f"{cdi['kind']}: no kind")
    for mount in edits['mounts']:
        if mount['hostPath'] != SOCKET or 'ro' not in mount['options']:
            problems.append(str(mount))
    if f'GPUMEM_SOCKET={SOCKET}/gpumemd.sock' not in edits['env']:
        problems.append(str(edits['env']))
    return problems


def main():
    folder = pathlib.Path(sys.argv[1]) / 'k8s'
    documents = read(folder / 'daemonset.yaml')
    daemon = pick(documents, 'DaemonSet')['spec']['template']['spec']
    config = json.loads(pick(documents, 'ConfigMap')['data']['gpumemd.conf'])
    client = pick(read(folder / 'client-pod.yaml'), 'Pod')
    cdi = read(folder / 'gpumemd.cdi.yaml')[0]
    report = tap.Report()
    for name, pod in (('the daemon', daemon), ('the client', client['spec'])):
        report.case(f'{name} is not privileged', check_unprivileged(pod))
        report.case(f'{name} has one folder of the host at most', check_volumes(pod))
    report.case('the socket is for others to read', check_readers(daemon))
    report.case('the daemon takes no GPU from the scheduler', check_no_gpu_is_taken(daemon))
    report.case('the daemon has room for pinned memory', check_memory(daemon, config))
    report.case('users and groups fit', check_users(daemon, client['spec']))
    report.case('the client has the socket', check_client(client['spec']))
    report.case('the CDI specification gives the same', check_cdi(cdi))
    selector = pick(documents, 'DaemonSet')['spec']['selector']['matchLabels']
    labels = pick(documents, 'DaemonSet')['spec']['template']['metadata']['labels']
    report.case('the selector finds the pods', [] if selector.items() <= labels.items() else [str(labels)])
    return report.finish()


if __name__ == '__main__':
    sys.exit(main())
