# A desktop for guests: a graphical console with a password, a graphics card for two monitors, sound, and a pointer that
# follows the client's. Its disk is transient: what a user leaves on it is gone when the desktop is off.
#
# VNC isn't encrypted, so it listens on the host's 127.0.0.1, and virt-viewer reaches it through SSH:
#
#   virt-viewer -c qemu+ssh://root@kvm1.example.net/system desktop
#
# Viewers that know SPICE connect to a second screen, on a socket of the host that only root reaches, and hear the sound:
#
#   virt-viewer -c qemu+ssh://root@kvm1.example.net/system --attach desktop
#
# The password is in neither the state nor the plan; a new password_wo_version sets another one while the VM runs.

terraform {
  required_version = ">= 1.11" # for write-only attributes

  required_providers {
    virtfleet = {
      source = "virtfleet/virtfleet"
    }
  }
}

provider "virtfleet" {
  hosts = {
    kvm1 = { uri = "qemu+ssh://root@kvm1.example.net/system" }
  }
}

variable "password" {
  description = "Password of the screen, at most 8 characters."
  type        = string
  sensitive   = true
  ephemeral   = true
}

resource "virtfleet_virtual_machine" "desktop" {
  name   = "desktop"
  memory = { size = "4Gi" }

  # The VM can't move while it runs, because what was written is in a temporary file of its host.
  disks = { system = { file = "/srv/images/desktop.qcow2", transient = true } }

  devices = {
    # A client in a web browser connects to the port of websocket. None may disconnect the others.
    graphics = {
      type         = "vnc"
      listen       = "address"
      address      = "127.0.0.1"
      port         = "auto"
      websocket    = "auto"
      keymap       = "de"
      share_policy = "force-shared"
    }
    video  = { model = "virtio", heads = 2 }
    sound  = { model = "ich9" }
    inputs = { tablet = { type = "tablet" } }

    second_graphics = { type = "spice", listen = "socket" }
    audio           = { type = "spice" }
  }

  graphics_access = {
    password_wo         = var.password
    password_wo_version = "1"
  }
}
