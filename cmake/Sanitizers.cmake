if(DLP_SANITIZE)
  target_compile_options(dlp_flags INTERFACE
    -fsanitize=${DLP_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(dlp_flags INTERFACE -fsanitize=${DLP_SANITIZE})
endif()
if(DLP_FUZZ)
  target_compile_options(dlp_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
