"""Adds up 1 + task over all workers, in a variable that the first parameter server keeps."""

import argparse
import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"

import tensorflow as tf

parser = argparse.ArgumentParser()
for name in ("ps_hosts", "worker_hosts", "job_name"):
    parser.add_argument(f"--{name}")
parser.add_argument("--task_index", type=int)
told = parser.parse_args()
workers = told.worker_hosts.split(",")
cluster = tf.train.ClusterSpec({"ps": told.ps_hosts.split(","), "worker": workers})
# Who has ended is not to be asked by the others.
config = tf.compat.v1.ConfigProto(
    device_filters=["/job:ps/task:0", f"/job:worker/task:{told.task_index}"]
)
server = tf.distribute.Server(
    cluster, job_name=told.job_name, task_index=told.task_index, config=config
)
if told.job_name == "ps":
    server.join()

with tf.Graph().as_default():
    with tf.device("/job:ps/task:0"):
        total, added, seen = (tf.compat.v1.Variable(0, name=name) for name in "abc")
    with tf.compat.v1.Session(server.target, config=config) as session:
        if told.task_index == 0:
            session.run(tf.compat.v1.global_variables_initializer())
        while session.run(tf.compat.v1.report_uninitialized_variables()).size:
            pass
        session.run(total.assign_add(told.task_index + 1, use_locking=True))
        session.run(added.assign_add(1, use_locking=True))
        while session.run(added) < len(workers):
            pass
        sys.stdout.write(f"worker {told.task_index}: the sum is {session.run(total)}\n")
        sys.stdout.flush()
        session.run(seen.assign_add(1, use_locking=True))
        # The variables are gone with the first worker: it ends last.
        while told.task_index == 0 and session.run(seen) < len(workers):
            pass
