terraform {
  required_providers {
    virtfleet = {
      source = "virtfleet/virtfleet"
    }
  }
}

provider "virtfleet" {
  hosts = {
    kvm1 = {
      uri    = "qemu+ssh://root@kvm1.example.net/system"
      labels = { zone = "a" }
    }
    kvm2 = {
      uri          = "qemu+ssh://root@kvm2.example.net/system"
      labels       = { zone = "b" }
      memory_limit = "48Gi"
    }
  }

  # Without this block: the SSH agent, ~/.ssh/config, the default keys and ~/.ssh/known_hosts.
  ssh = {
    jump_hosts = ["ops@bastion.example.net"]
  }

  # A host under maintenance may be silent without failing every plan.
  on_unreachable = "keep"
}
