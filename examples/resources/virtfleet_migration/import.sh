# By the id of the VM and that of the migration, which "virsh metadata <vm> urn:virtfleet:1" shows.
terraform import virtfleet_migration.web_out 9d7c1f0e-5c3b-4a57-9d0f-6f3c6f8a2b11/3f2a9c0d8e7b6a5f4d3c2b1a09f8e7d6
