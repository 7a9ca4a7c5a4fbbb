terraform import virtfleet_secret.ceph ceph/client.libvirt
# Or by its UUID:
terraform import virtfleet_secret.ceph 6f1f3a5e-6a3e-4b3b-9c53-2d8d4e2f7a10
