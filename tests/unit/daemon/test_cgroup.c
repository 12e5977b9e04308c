/* SPDX-License-Identifier: Apache-2.0 */
/* Containers by the names that runtimes give their cgroups: lines from real machines, with other ids. */
#include "daemon/identity/cgroup.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tests/suite.h"

#define ID    "8f2d6a3bc0de45f1a9b7c6d5e4f3021987ab65cd43ef21098f7e6d5c4b3a2910"
#define OTHER "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define POD   "1b2c3d4e-5f60-4718-92a3-b4c5d6e7f809"
#define POD_  "1b2c3d4e_5f60_4718_92a3_b4c5d6e7f809"
#define TASK  "0123456789abcdef0123456789abcdef"
#define SHORT "8f2d6a3bc0de"

static const struct {
        const char *what;
        const char *cgroups;
        const char *path;
        const char *name;
} known[] = {
        {"nothing at all", "0::/\n", "", ""},
        {"a login", "0::/user.slice/user-1000.slice/session-3.scope\n", "", ""},
        {"a desktop",
         "0::/user.slice/user-1000.slice/user@1000.service/app.slice/"
         "app-gnome-org.gnome.Terminal-4711.scope\n",
         "", ""},
        {"a service", "0::/system.slice/ssh.service\n", "", ""},
        {"a service of no slice", "0::/backup.service\n", "", ""},
        {"the first process", "0::/init.scope\n", "", ""},
        {"an administrator's slice", "0::/gpu.slice/training.service\n", "", ""},
        {"a login, v1",
         "12:memory:/user.slice/user-1000.slice/session-3.scope\n11:cpuset:/\n"
         "1:name=systemd:/user.slice/user-1000.slice/session-3.scope\n0::/user.slice/"
         "user-1000.slice/session-3.scope\n",
         "", ""},
        {"a sandbox's own tree for one controller",
         "4:memory:/some/place\n1:name=systemd:/\n0::/\n", "", ""},
        {"Docker, systemd, v2", "0::/system.slice/docker-" ID ".scope\n",
         "/system.slice/docker-" ID ".scope", SHORT},
        {"Docker, cgroupfs, v2", "0::/docker/" ID "\n", "/docker/" ID, SHORT},
        {"Docker, v1",
         "12:pids:/docker/" ID "\n11:memory:/docker/" ID "\n1:name=systemd:/docker/" ID
         "\n0::/system.slice/containerd.service\n",
         "/docker/" ID, SHORT},
        {"Docker, systemd, v1",
         "9:devices:/system.slice/docker-" ID ".scope\n1:name=systemd:/system.slice/docker-" ID
         ".scope\n",
         "/system.slice/docker-" ID ".scope", SHORT},
        {"Docker, rootless",
         "0::/user.slice/user-1000.slice/user@1000.service/user.slice/docker-" ID ".scope\n",
         "/user.slice/user-1000.slice/user@1000.service/user.slice/docker-" ID ".scope", SHORT},
        {"Docker in Docker", "0::/docker/" ID "/docker/" OTHER "\n", "/docker/" ID, SHORT},
        {"a service in a container",
         "0::/system.slice/docker-" ID ".scope/system.slice/a.service\n",
         "/system.slice/docker-" ID ".scope", SHORT},
        {"both trees, v2 goes before",
         "2:cpu:/docker/" OTHER "\n0::/system.slice/docker-" ID ".scope/init\n",
         "/system.slice/docker-" ID ".scope", SHORT},
        {"containerd of Kubernetes, systemd, v2",
         "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" POD_
         ".slice/cri-containerd-" ID ".scope\n",
         "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" POD_
         ".slice/cri-containerd-" ID ".scope",
         SHORT},
        {"the same, guaranteed",
         "0::/kubepods.slice/kubepods-pod" POD_ ".slice/cri-containerd-" ID ".scope\n",
         "/kubepods.slice/kubepods-pod" POD_ ".slice/cri-containerd-" ID ".scope", SHORT},
        {"containerd of Kubernetes, cgroupfs, v1",
         "11:memory:/kubepods/besteffort/pod" POD "/" ID
         "\n1:name=systemd:/kubepods/besteffort/pod" POD "/" ID "\n",
         "/kubepods/besteffort/pod" POD "/" ID, SHORT},
        {"containerd's name of systemd's kind, cgroupfs",
         "0::/system.slice/containerd.service/kubepods-besteffort-pod" POD_
         ".slice:cri-containerd:" ID "\n",
         "/system.slice/containerd.service/kubepods-besteffort-pod" POD_
         ".slice:cri-containerd:" ID,
         SHORT},
        {"an unknown runtime, in a pod", "0::/kubepods/pod" POD "/sandbox-7/init\n",
         "/kubepods/pod" POD "/sandbox-7", "sandbox-7"},
        {"cri-dockerd", "0::/kubepods.slice/kubepods-pod" POD_ ".slice/docker-" ID ".scope\n",
         "/kubepods.slice/kubepods-pod" POD_ ".slice/docker-" ID ".scope", SHORT},
        {"CRI-O",
         "0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" POD_
         ".slice/crio-" ID ".scope/container\n",
         "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" POD_ ".slice/crio-" ID
         ".scope",
         SHORT},
        {"another pod's, seen from within a pod",
         "0::/../../kubepods-pod" POD_ ".slice/cri-containerd-" ID ".scope\n",
         "/../../kubepods-pod" POD_ ".slice/cri-containerd-" ID ".scope", SHORT},
        {"the host, seen from within a container", "0::/../../system.slice/ssh.service\n", "", ""},
        {"the root, seen from within a container", "0::/../..\n", "", ""},
        {"kind: a pod in a node that is a container",
         "0::/system.slice/docker-" ID ".scope/kubelet.slice/kubelet-kubepods.slice/"
         "kubelet-kubepods-pod" POD_ ".slice/cri-containerd-" OTHER ".scope\n",
         "/system.slice/docker-" ID ".scope", SHORT},
        {"podman", "0::/machine.slice/libpod-" ID ".scope/container\n",
         "/machine.slice/libpod-" ID ".scope", SHORT},
        {"podman, rootless",
         "0::/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" ID
         ".scope/container\n",
         "/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" ID ".scope", SHORT},
        {"podman, cgroupfs", "0::/libpod_parent/libpod-" ID "\n", "/libpod_parent/libpod-" ID,
         SHORT},
        {"podman, in a pod",
         "0::/machine.slice/machine-libpod_pod_" OTHER ".slice/libpod-" ID ".scope\n",
         "/machine.slice/machine-libpod_pod_" OTHER ".slice/libpod-" ID ".scope", SHORT},
        {"podman's monitor", "0::/machine.slice/libpod-conmon-" ID ".scope\n", "", ""},
        {"systemd-nspawn", "0::/machine.slice/systemd-nspawn@web.service/payload/init.scope\n",
         "/machine.slice/systemd-nspawn@web.service", "web"},
        {"systemd-nspawn by hand", "0::/machine.slice/machine-my\\x2dtree.scope/payload\n",
         "/machine.slice/machine-my\\x2dtree.scope", "my-tree"},
        {"a virtual machine",
         "0::/machine.slice/machine-qemu\\x2d1\\x2dvm.scope/libvirt/emulator\n",
         "/machine.slice/machine-qemu\\x2d1\\x2dvm.scope", "qemu-1-vm"},
        {"LXC", "0::/lxc.payload.web/system.slice/nginx.service\n", "/lxc.payload.web", "web"},
        {"LXC's monitor", "0::/lxc.monitor.web\n", "/lxc.monitor.web", "lxc.monitor.web"},
        {"LXC, an earlier one", "0::/lxc.payload/web\n", "/lxc.payload/web", "web"},
        {"LXC, v1", "8:memory:/lxc/web/user.slice\n1:name=systemd:/lxc/web/user.slice\n",
         "/lxc/web", "web"},
        {"Slurm, v2", "0::/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0\n",
         "/system.slice/slurmstepd.scope/job_4711", "job_4711"},
        {"Slurm, several daemons",
         "0::/system.slice/n1_slurmstepd.scope/job_4711/step_batch/user\n",
         "/system.slice/n1_slurmstepd.scope/job_4711", "job_4711"},
        {"Slurm, v1",
         "10:memory:/slurm/uid_1000/job_4711/step_0/task_0\n5:cpuset:/slurm/uid_1000/job_4711/"
         "step_0"
         "\n1:name=systemd:/system.slice/slurmd.service\n",
         "/slurm/uid_1000/job_4711", "job_4711"},
        {"Slurm's own processes", "0::/system.slice/slurmstepd.scope/system\n", "", ""},
        {"Amazon ECS", "0::/ecs/" TASK "/" TASK "-1234567890\n",
         "/ecs/" TASK "/" TASK "-1234567890", "0123456789abcdef0123456789abcde"},
        {"Amazon ECS, an earlier one", "4:memory:/ecs/" POD "/" ID "\n0::/\n", "/ecs/" POD "/" ID,
         SHORT},
        {"BuildKit", "0::/docker/buildkit/x1n4qs0r2tkzw6f5v8u7y3a9b\n",
         "/docker/buildkit/x1n4qs0r2tkzw6f5v8u7y3a9b", "x1n4qs0r2tkzw6f5v8u7y3a9b"},
        {"runc by itself, systemd", "0::/system.slice/runc-mybox.scope\n",
         "/system.slice/runc-mybox.scope", "runc-mybox.scope"},
        {"runc by itself, with an id", "0::/system.slice/runc-" ID ".scope\n",
         "/system.slice/runc-" ID ".scope", SHORT},
        {"runc by itself, v1",
         "5:memory:/system.slice/runc-a.scope\n1:name=systemd:/system.slice/runc-a.scope\n",
         "/system.slice/runc-a.scope", "runc-a.scope"},
        {"runc by itself, rootless",
         "0::/user.slice/user-1000.slice/user@1000.service/user.slice/runc-my\\x2dbox.scope\n",
         "/user.slice/user-1000.slice/user@1000.service/user.slice/runc-my\\x2dbox.scope",
         "runc-my-box.scope"},
        {"crun by itself", "0::/system.slice/crun-mybox.scope/container\n",
         "/system.slice/crun-mybox.scope", "crun-mybox.scope"},
        {"a scope that ends as runc's", "0::/system.slice/xrunc-mybox.scope\n", "", ""},
        {"a scope that begins nearly as runc's", "0::/system.slice/runcmybox.scope\n", "", ""},
        {"runc's without a name", "0::/system.slice/runc-.scope\n", "", ""},
        {"a service of runc's name", "0::/system.slice/runc-mybox.service\n", "", ""},
        {"a slice of crun's name", "0::/crun-mybox.slice/a.service\n", "", ""},
        {"another runtime's scope", "0::/system.slice/other-mybox.scope\n", "", ""},
        {"an unknown place", "0::/nomad/share/task-7\n", "/nomad/share/task-7", "task-7"},
        {"the same, v1", "3:cpu:/\n1:name=openrc:/sshd\n0::/\n", "/sshd", "sshd"},
        {"names with a colon", "0::/a:b/c:d\n", "/a:b/c:d", "c:d"},
        {"a name for a terminal", "0::/\033[31m\xc3\xa9\n", "/\033[31m\xc3\xa9", "?[31m??"},
        {"without a line's end", "0::/docker/" ID, "/docker/" ID, SHORT},
        {"nearly an id", "0::/user.slice/x" ID "\n", "", ""},
        {"a digit too few", "0::/user.slice/docker-8f2d6a3bc0de.scope\n", "", ""},
        {"a job outside of Slurm's cgroup", "0::/user.slice/job_4711\n", "", ""},
        {"a job without a number", "0::/system.slice/slurmstepd.scope/job_\n", "", ""},
};

#define N_KNOWN (sizeof(known) / sizeof(known[0]))

TEST(containers_are_known_by_their_cgroup)
{
        for (unsigned i = 0; i < N_KNOWN; i++) {
                char path[CGROUP_PATH_MAX], name[CGROUP_NAME_MAX];

                memset(path, 'x', sizeof(path));
                ck_assert_int_eq(cgroup_find_container(known[i].cgroups, path), 0);
                ck_assert_msg(strcmp(path, known[i].path) == 0, "%s: \"%s\", not \"%s\"",
                              known[i].what, path, known[i].path);
                cgroup_container_name(path, name);
                ck_assert_msg(strcmp(name, known[i].name) == 0, "%s: \"%s\", not \"%s\"",
                              known[i].what, name, known[i].name);
                /* Keys are compared as whole arrays. */
                for (size_t n = strlen(path); n < sizeof(path); n++)
                        ck_assert_int_eq(path[n], '\0');
        }
}

TEST(other_texts_are_refused)
{
        static const char *const texts[] = {
                "",         "\n",      "0",         "0:",         "0::",    "0::a\n",
                "::/\n",    "x::/\n",  "0::/\n\n",  "0::/\nx",    ":a:/\n", "-1:a:/\n",
                "0::/\n1:", "0 ::/\n", "0::/\n0::", "name=x:/\n",
        };
        char path[CGROUP_PATH_MAX];

        for (unsigned i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
                ck_assert_msg(cgroup_find_container(texts[i], path) == -EPROTO, "\"%s\"", texts[i]);
}

TEST(a_path_has_its_bound)
{
        char cgroups[2 * CGROUP_PATH_MAX], path[CGROUP_PATH_MAX];
        int n;

        n = snprintf(cgroups, sizeof(cgroups), "0::/%0*d", CGROUP_PATH_MAX - 2, 7);
        ck_assert_int_eq(cgroup_find_container(cgroups, path), 0);
        ck_assert_uint_eq(strlen(path), CGROUP_PATH_MAX - 1);
        (void)snprintf(cgroups + n, sizeof(cgroups) - (size_t)n, "8");
        ck_assert_int_eq(cgroup_find_container(cgroups, path), -ENAMETOOLONG);
        /* A cgroup inside the container does not belong to its name. */
        (void)snprintf(cgroups, sizeof(cgroups), "0::/lxc/a/%0*d\n", CGROUP_PATH_MAX, 7);
        ck_assert_int_eq(cgroup_find_container(cgroups, path), 0);
        ck_assert_str_eq(path, "/lxc/a");
}

TEST(a_container_is_called_by_its_name_or_by_a_path)
{
        static const struct {
                const char *path, *text;
                int is_meant;
        } calls[] = {
                {"/slurm/uid_5/job_12", "job_12", 1},
                {"/slurm/uid_5/job_12", "/sys/fs/cgroup/slurm/uid_5/job_12", 1},
                {"/slurm/uid_5/job_12", "/slurm/uid_5/job_12", 1},
                {"/slurm/uid_5/job_12", "job_12/", 1},
                {"/slurm/uid_5/job_12", "/slurm/uid_5/job_12//", 1},
                {"/a_name_that_is_longer_than_a_row_has_room_for",
                 "a_name_that_is_longer_than_a_row_has_room_for", 1},
                {"/slurm/uid_5/job_12", "job_1", 0},
                {"/slurm/uid_5/job_12", "xjob_12", 0},
                {"/slurm/uid_5/job_12", "/slurm/uid_5/job_12/step_0", 0},
                {"/slurm/uid_5/job_12", "uid_5/job_12", 0},
                {"/machine.slice/machine-a.scope", "a", 1},
                {"/system.slice/runc-a.scope", "runc-a.scope", 1},
                {"/system.slice/runc-a.scope", "a", 0},
                {"client 12", "client 12", 0},
                {"client 12", "12", 0},
                {"/", "/", 0},
                {"", "", 0},
                {"/a", "", 0},
        };

        for (unsigned i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
                ck_assert_msg(cgroup_container_is_called(calls[i].path, calls[i].text) ==
                                      calls[i].is_meant,
                              "\"%s\" by \"%s\"", calls[i].path, calls[i].text);
}

TESTS_MAIN("cgroup")
