"""The servers of a job agree through etcd: what ``coordination.agreement`` decides is done here."""
