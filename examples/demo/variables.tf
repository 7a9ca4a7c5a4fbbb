variable "hosts" {
  description = "The libvirt hosts, by name."
  type        = map(string)
}

variable "host" {
  description = "Where the machine has to be; anywhere unless set."
  type        = string
  default     = null
}

variable "maintenance" {
  description = "A host that is to be emptied; none unless set."
  type        = string
  default     = null
}

variable "private_key_file" {
  description = "The SSH key that logs in on the hosts."
  type        = string
}

variable "known_hosts_file" {
  description = "The hosts' SSH keys."
  type        = string
}

variable "kernel" {
  description = "The kernel to boot, at the same path on every host."
  type        = string
}

variable "initrd" {
  description = "The initramfs to boot, at the same path on every host."
  type        = string
}

variable "cmdline" {
  description = "The kernel's command line."
  type        = string
}

variable "disk" {
  description = "A disk that every host reaches: the name of an NBD export, and where it is served (host:port)."
  type        = object({ name = string, server = string })
}

variable "bridge" {
  description = "A bridge that every host has, on a network with DHCP."
  type        = string
}
