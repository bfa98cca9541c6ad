"""The library for Conan 2. OpenSSL gives its headers; it is loaded where a connection uses TLS."""
import os

from conan import ConanFile
from conan.tools.files import copy, get, rmdir
from conan.tools.gnu import PkgConfigDeps
from conan.tools.layout import basic_layout
from conan.tools.meson import Meson, MesonToolchain


class LockkeeperConan(ConanFile):
    name = "lockkeeper"
    version = "@version@"
    description = "Distributed locks on Redis and Valkey, for C and C++"
    license = "MIT"
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False], "fPIC": [True, False]}
    default_options = {"shared": True, "fPIC": True}

    def configure(self):
        if self.options.shared:
            self.options.rm_safe("fPIC")

    def layout(self):
        basic_layout(self, src_folder="src")

    def requirements(self):
        self.requires("hiredis/1.2.0")
        self.requires("openssl/[>=3.0 <4]")
        self.requires("uthash/2.3.0")

    def build_requirements(self):
        self.tool_requires("meson/[>=1.0 <2]")
        self.tool_requires("pkgconf/[>=2 <3]")

    def source(self):
        get(self, "@url@", sha256="@sha256@", strip_root=True)

    def generate(self):
        PkgConfigDeps(self).generate()
        made = MesonToolchain(self)
        for option in ("cli", "tests", "bench", "demo"):
            made.project_options[option] = False
        # Meson looks for this one as a header, not as a package.
        made.c_args.append(f"-I{self.dependencies['uthash'].cpp_info.includedirs[0]}")
        made.generate()

    def build(self):
        meson = Meson(self)
        meson.configure()
        meson.build()

    def package(self):
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))
        Meson(self).install()
        for folder in (("lib", "pkgconfig"), ("lib", "cmake"), ("share",)):
            rmdir(self, os.path.join(self.package_folder, *folder))

    def package_info(self):
        self.cpp_info.libs = ["lockkeeper"]
        self.cpp_info.system_libs = ["pthread", "dl"]
        self.cpp_info.set_property("cmake_file_name", "lockkeeper")
        self.cpp_info.set_property("cmake_target_name", "lockkeeper::lockkeeper")
        self.cpp_info.set_property("pkg_config_name", "lockkeeper")
