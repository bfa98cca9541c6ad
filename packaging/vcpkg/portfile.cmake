# The library alone. OpenSSL gives its headers; it is loaded where a connection uses TLS.
vcpkg_download_distfile(ARCHIVE
    URLS "@url@"
    FILENAME "lockkeeper-@version@.tar.gz"
    SHA512 @sha512@
)
vcpkg_extract_source_archive(SOURCE_PATH ARCHIVE "${ARCHIVE}")

set(VCPKG_C_FLAGS "${VCPKG_C_FLAGS} -I${CURRENT_INSTALLED_DIR}/include")
set(VCPKG_CXX_FLAGS "${VCPKG_CXX_FLAGS} -I${CURRENT_INSTALLED_DIR}/include")
vcpkg_configure_meson(
    SOURCE_PATH "${SOURCE_PATH}"
    OPTIONS -Dcli=false -Dtests=false -Dbench=false -Ddemo=false
)
vcpkg_install_meson()
vcpkg_fixup_pkgconfig()
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/lockkeeper)

file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
