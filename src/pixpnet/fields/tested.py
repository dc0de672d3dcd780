"""The networks whose fields the tests compare with the NaN probe, so that a training run need not do it again.

The tests take their lists from here: ``tests/fields/test_architectures.py`` the paper's networks of torchvision,
``tests/test_smallnet.py`` the small one, ``tests/fields/test_timm.py`` those of timm.
"""

from pixpnet import zoo
from pixpnet.network_names import is_given, is_user_code

TIMM = (
    *(
        "bat_resnext26ts",
        "botnet26t_256",
        "cait_xxs24_224",
        "coat_lite_tiny",
        "coatnet_nano_rw_224",
        "convmixer_768_32",
    ),
    *(
        "convnext_atto",
        "convnextv2_atto",
        "crossvit_9_240",
        "csatv2",
        "cspresnet50",
        "davit_tiny",
        "deit_tiny_patch16_224",
    ),
    *("densenetblur121d", "dla34", "dpn68", "eca_resnext26ts", "edgenext_xx_small", "efficientformerv2_s0"),
    *("efficientnet_b0", "efficientvit_b0", "efficientvit_m0", "ese_vovnet19b_dw", "fastvit_t8", "fbnetc_100"),
    *("focalnet_tiny_srf", "gcresnet33ts", "gcvit_xxtiny", "gernet_s", "ghostnet_050", "gmlp_s16_224", "halonet26t"),
    *("hgnet_tiny", "hiera_tiny_224", "hrnet_w18_small", "inception_next_atto", "lambda_resnet26t", "lcnet_050"),
    *("levit_128s", "mambaout_femto", "maxvit_pico_rw_256", "mixer_s32_224", "mixnet_s", "mobilenetv3_small_050"),
    *("mobilevit_xxs", "mvitv2_tiny", "nest_tiny", "pit_ti_224", "poolformer_s12", "pvt_v2_b0", "regnetx_002"),
    *("repghostnet_050", "repvgg_a0", "repvit_m0_9", "res2net50_14w_8s", "resmlp_12_224", "resnest14d", "resnetblur18"),
    *("resnetv2_50", "rexnet_100", "selecsls42", "skresnet18", "starnet_s1", "swiftformer_xs"),
    *("swin_tiny_patch4_window7_224", "swinv2_tiny_window8_256", "tiny_vit_5m_224", "tinynet_e", "tnt_s_patch16_224"),
    *("twins_svt_small", "visformer_tiny", "vit_tiny_patch16_224", "volo_d1_224", "xception41", "xcit_nano_12_p16_224"),
)


def is_tested(name: str) -> bool:
    """Whether the tests compare the fields of the network of this name with the probe.

    >>> is_tested("vgg16"), is_tested("small-61"), is_tested("timm:convnext_atto.d2_in1k")
    (True, True, True)
    >>> is_tested("alexnet"), is_tested("my.module:build"), is_tested("timm:resnet18")
    (False, False, False)
    """
    if is_user_code(name) or is_given(name):
        return False
    if name.startswith("timm:"):
        return name.removeprefix("timm:").split(".")[0] in TIMM
    return name == "small" or name.startswith("small-") or name in zoo.PAPER_LAYERS
