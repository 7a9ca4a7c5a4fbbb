# A fleet gets new kernels, one host after another, and no machine stops. A host's turn is two applies: one empties it and
# does the work, the other ends the maintenance, which brings its machines back.
#
#   for host in kvm1 kvm2; do
#     terraform apply -auto-approve -var "under_maintenance=[\"$host\"]" && terraform apply -auto-approve || break
#   done
#
# What fails stops the roll where it is, with the host closed; the same loop from that host on takes it up again.

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
  description = "The hosts whose turn it is. The others have to have room for their machines."
  type        = set(string)
  default     = []
}

variable "update" {
  description = "What is done on a host once it is empty, in a shell here; $HOST is its name. It ends when the host is back."
  type        = string
  default     = <<-SHELL
    ssh "root@$HOST" 'apt-get -y full-upgrade && shutdown -r +0'
    sleep 60
    until ssh -o ConnectTimeout=5 "root@$HOST" virsh version; do sleep 5; done
  SHELL
}

resource "virtfleet_host_maintenance" "turn" {
  for_each = var.under_maintenance

  host    = each.key
  restore = true
  reason  = "new kernel"

  timeouts = { create = "1h", delete = "1h" }
}

resource "terraform_data" "update" {
  for_each = var.under_maintenance

  provisioner "local-exec" {
    command     = var.update
    environment = { HOST = each.key }
  }

  # Not before the host is empty, and over before its maintenance ends.
  depends_on = [virtfleet_host_maintenance.turn]
}
