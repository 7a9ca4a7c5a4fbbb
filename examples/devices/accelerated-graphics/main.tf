# A desktop that draws with a graphics card of its host, without having the card for itself. Viewers reach it by VNC, which
# can't draw with a card: egl_headless does. The VM can't be moved while it runs.

terraform {
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

resource "virtfleet_virtual_machine" "cad" {
  name   = "cad"
  memory = { size = "4Gi" }

  devices = {
    graphics     = { type = "vnc" }
    egl_headless = { rendernode = "/dev/dri/renderD128" }
    video        = { model = "virtio", accel3d = true }
  }
}
