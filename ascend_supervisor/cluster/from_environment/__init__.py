"""What variables of a platform say of the cluster; one file per platform, all pure."""
