# Updates the kernel of hosts, one after another. A VM that can be moved while it runs doesn't stop. The eviction strategy says
# what happens to any other VM, so read the plan of each host first. Each host requires two applies: the first drains the host and runs
# the update, the second ends the maintenance, which brings its VMs back.
#
#   for host in kvm1 kvm2; do
#     terraform apply -auto-approve -var "under_maintenance=[\"$host\"]" && terraform apply -auto-approve || break
#   done
#
# If the first apply of a host fails, run the loop again, beginning with that host. If the second fails, repeat only "terraform apply".

terraform {
  required_providers {
    virtfleet = { source = "virtfleet/virtfleet" }
  }
}

provider "virtfleet" {
  hosts = {
    kvm1 = { uri = "qemu+ssh://root@kvm1.example.net/system", migration_address = "10.0.0.11" }
    kvm2 = { uri = "qemu+ssh://root@kvm2.example.net/system", migration_address = "10.0.0.12" }
  }
}

variable "under_maintenance" {
  description = "The hosts whose turn it is. The other hosts need room for their VMs."
  type        = set(string)
  default     = []
}

variable "update" {
  description = "Command that runs here when a host is drained. $HOST is the host's name. It ends when the host is back."
  type        = string
  default     = <<-SHELL
    set -e
    boot() { ssh -o ConnectTimeout=5 "root@$HOST" cat /proc/sys/kernel/random/boot_id; }
    before=$(boot)
    ssh "root@$HOST" "apt-get update && apt-get -y full-upgrade"
    ssh "root@$HOST" shutdown -r +0 || true # the connection may end first
    until now=$(boot) && [ "$now" != "$before" ]; do sleep 5; done
    until ssh "root@$HOST" virsh version; do sleep 5; done
  SHELL
}

resource "virtfleet_host_maintenance" "turn" {
  for_each = var.under_maintenance

  host    = each.key
  restore = true
  reason  = "new kernel"
}

resource "terraform_data" "update" {
  for_each = var.under_maintenance

  provisioner "local-exec" {
    command     = var.update
    environment = { HOST = each.key }
  }

  # It begins when the host is drained, and ends before the maintenance does.
  depends_on = [virtfleet_host_maintenance.turn]
}
