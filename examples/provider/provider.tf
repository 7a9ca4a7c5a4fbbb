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

      # The volumes of a storage pool may grow to 1.5 times its capacity together, not to more.
      storage_overprovisioning_factor = 1.5
    }
  }

  # What isn't set here comes from the SSH agent, ~/.ssh/config, the default keys and ~/.ssh/known_hosts, for the jump
  # host too. You can leave the whole block out.
  ssh = {
    jump_hosts = ["ops@bastion.example.net"]

    # Record the key of a host that is new, and refuse a changed one. The default refuses both.
    host_key_checking = "accept_new"
  }
}
