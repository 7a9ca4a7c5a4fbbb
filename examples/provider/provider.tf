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

  # Leave this block out to use the SSH agent, ~/.ssh/config, the default keys and ~/.ssh/known_hosts. An attribute that is set
  # replaces only its own default: here the same keys log in to the jump host.
  ssh = {
    jump_hosts = ["ops@bastion.example.net"]
  }

  # Keep the last known state of a host that doesn't answer, instead of failing the plan. A host that was drained with
  # virtfleet_host_maintenance doesn't need this.
  on_unreachable = "keep"
}
