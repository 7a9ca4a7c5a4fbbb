# Disks that QEMU reaches over the network, without a storage pool: a LUN of an iSCSI target with a password (CHAP), an export of
# an NBD server with TLS, and media from web servers. A move copies no data of these disks. Before you apply: the target, the
# export and the media exist, all hosts reach their servers, and each host has its certificates for NBD in /etc/pki/libvirt-nbd.
# On Debian, iSCSI and web servers require the package qemu-block-extra on each host. Run it as
#
#   TF_VAR_chap_password=... TF_VAR_web_password=... terraform apply

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
    kvm2 = { uri = "qemu+ssh://root@kvm2.example.net/system" }
  }
}

# Terraform stores neither of these.
variable "chap_password" {
  description = "Password of the user that the iSCSI target lets in."
  type        = string
  ephemeral   = true
}

variable "web_password" {
  description = "Password of the user that the web server lets in."
  type        = string
  ephemeral   = true
}

# The passwords, on every host. A new value_wo_version writes them again. private = false: if a host lacks a password, the move of
# a VM there copies it from another host. libvirt reveals the value of a private secret to no client, so such a move would fail the
# plan.
resource "virtfleet_secret" "chap" {
  usage            = "iscsi"
  usage_id         = "san.example.net"
  private          = false
  value_wo         = var.chap_password
  value_wo_version = "1"
}

# A secret for a web server has the usage iscsi, too.
resource "virtfleet_secret" "web" {
  usage            = "iscsi"
  usage_id         = "media.example.net"
  private          = false
  value_wo         = var.web_password
  value_wo_version = "1"
}

# iSCSI with CHAP: QEMU logs in to the target itself. What it sends isn't encrypted.
resource "virtfleet_virtual_machine" "orders" {
  name   = "orders"
  memory = { size = "4Gi" }

  disks = {
    root = {
      network = {
        protocol = "iscsi"
        name     = "iqn.2026-01.net.example:vms/1" # the target and the LUN
        hosts    = ["san.example.net:3260"]
        auth     = { username = "hosts", secret = virtfleet_secret.chap.id }
      }
      cache = "none"
    }
  }
}

# NBD with TLS: QEMU presents the host's certificate and checks the server's. tls_hostname is the name in that certificate.
resource "virtfleet_virtual_machine" "archive" {
  name   = "archive"
  memory = { size = "2Gi" }

  disks = {
    root = {
      network = {
        protocol     = "nbd"
        name         = "archive"
        hosts        = ["192.0.2.20:10809"]
        tls          = true
        tls_hostname = "nbd.example.net"
      }
      cache = "none"
    }
  }
}

# Media from web servers. The VM boots the installer while its disk is empty.
resource "virtfleet_virtual_machine" "new" {
  name   = "new"
  memory = { size = "2Gi" }

  disks = {
    root = { pool = "vms", size = "20Gi", boot_order = 1 }

    # HTTPS, with a user name and a password.
    installer = {
      device     = "cdrom"
      boot_order = 2
      network = {
        protocol = "https"
        name     = "iso/debian.iso" # the path, without the leading slash
        hosts    = ["media.example.net:443"]
        auth     = { username = "hosts", secret = virtfleet_secret.web.id }
        timeout  = 30
      }
    }

    # HTTP: nothing proves that the medium is the server's.
    manuals = {
      device = "cdrom"
      network = {
        protocol = "http"
        name     = "iso/manuals.iso"
        hosts    = ["mirror.example.net:80"]
      }
    }
  }
}
